package register

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
	"github.com/idworker/idworker/testing/storetest"
)

// TestTimeOfDecision: the time counts only if it is that of the latest
// decision.
func TestTimeOfDecision(t *testing.T) {
	t.Parallel()
	const text = "2026-11-20T15:04:05.123456789Z"
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		decisions, decided string
		want               time.Time
	}{
		{"a b", "b " + text, at},
		{"b", "b " + text, at},
		{"a b", "a " + text, time.Time{}},
		{"b a", "b " + text, time.Time{}},
		{"", " " + text, time.Time{}},
		{"", "b " + text, time.Time{}},
		{"a b", "", time.Time{}},
		{"a b", "b", time.Time{}},
		{"a b", "b yesterday", time.Time{}},
		{"a b", text, time.Time{}},
	} {
		info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Metadata: map[string]string{metaDecisions: c.decisions, metaDecided: c.decided}}}
		if got := pollOf(info).Decided; !got.Equal(c.want) {
			t.Errorf("decisions %q, decided %q: %v, want %v", c.decisions, c.decided, got, c.want)
		}
	}
}

// decidedWorld is a register whose tags were raised by 1000 at that time, and
// that has a removed tag, whose next ID is 2001.
func decidedWorld(t *testing.T, tables int, at time.Time) *world {
	w := newWorld(t, 1, tables)
	w.server.loss = 0
	for _, table := range w.tables {
		table.back, table.loss = 0, 0
	}
	w.server.now.First, w.server.now.Decisions, w.server.now.Decided = 1001, []string{"a"}, at
	w.server.now.Last++
	w.server.keys["removed"] = storedEntry{entry{Next: 2001, Step: 10, Removed: true}, w.server.now.Last}
	w.server.now.Entries++
	return w
}

// TestUnusedAtTheDecision: only a tag that was not used before the latest
// decision, or never, begins below the lowest first ID of lost tags, whatever
// this process's clock says. A removed tag continues above its IDs.
func TestUnusedAtTheDecision(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for tables := range 2 {
		for _, clock := range []time.Duration{-day, 0, day} { // after the decision
			synctest.Test(t, func(t *testing.T) {
				at := time.Now().Add(-clock)
				s := decidedWorld(t, tables, at).loader(0)
				for name, c := range map[string]struct {
					earliest time.Time
					want     int64
				}{
					"unknown": {time.Time{}, 1001},
					"before":  {at.Add(-time.Nanosecond), 1001},
					"then":    {at, 1001},
					"after":   {at.Add(time.Nanosecond), 1},
					"never":   {store.NeverUsed, 1},
				} {
					first := store.Tag{Name: "first." + name, Step: 10, Next: 1, Earliest: c.earliest}
					if granted, err := storetest.ReserveFirst(t.Context(), s, first, 10); err != nil || granted.First != c.want {
						t.Errorf("%d tables, used since %s: granted %v, %v, want IDs from %d on", tables, name, granted, err, c.want)
					}
					made := store.Tag{Name: "made." + name, Step: 10, Next: 1, Earliest: c.earliest}
					err := s.CreateTag(t.Context(), made)
					if below := new(store.BelowError); errors.As(err, &below) && below.Floor == 1001 {
						made.Next = below.Floor
						err = s.CreateTag(t.Context(), made)
					}
					if granted, failed := storetest.Reserve(t.Context(), s, made.Name, 10); errors.Join(err, failed) != nil || granted.First != c.want {
						t.Errorf("%d tables, created, used since %s: granted %v, %v, want IDs from %d on", tables, name, granted, errors.Join(err, failed), c.want)
					}
				}
				removed := store.Tag{Name: "removed", Step: 10, Next: 1, Earliest: store.NeverUsed}
				if err := s.CreateTag(t.Context(), removed); !errors.Is(err, store.ErrBelow) {
					t.Errorf("%d tables: created again: %v, want ErrBelow", tables, err)
				}
				if granted, err := storetest.ReserveFirst(t.Context(), s, removed, 10); err != nil || granted.First != 2001 {
					t.Errorf("%d tables: created again: %v, %v, want IDs from 2001 on", tables, granted, err)
				}
			})
		}
	}
}

// TestDeletedIsUsed: an entry that was deleted by hand contradicts a name that
// was never used.
func TestDeletedIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := decidedWorld(t, 0, time.Now())
		w.server.now.Last++
		w.server.keys["deleted"] = storedEntry{revision: w.server.now.Last}
		s := w.loader(0)
		for _, first := range []int64{1, 500} {
			tag := store.Tag{Name: "deleted", Step: 10, Next: first, Earliest: store.NeverUsed}
			if err := s.CreateTag(t.Context(), tag); !errors.Is(err, store.ErrBadTag) {
				t.Errorf("from %d on: %v, want ErrBadTag", first, err)
			}
		}
	})
}

// TestDecisionBeforeACreation: a process that has not polled since another
// decision learns its time before it creates a tag that was unused at the
// previous decision.
func TestDecisionBeforeACreation(t *testing.T) {
	t.Parallel()
	for tables := range 2 {
		synctest.Test(t, func(t *testing.T) {
			w := decidedWorld(t, tables, time.Now())
			s := w.loader(0)
			w.server.decide(1000)
			w.server.mu.Lock()
			w.server.now.Decided = time.Now().AddDate(0, 0, 7)
			w.server.mu.Unlock()
			time.Sleep(2 * guard.PollEvery)
			tag := store.Tag{Name: "new", Step: 10, Next: 1, Earliest: time.Now().AddDate(0, 0, 3)}
			if granted, err := storetest.ReserveFirst(t.Context(), s, tag, 10); err != nil || granted.First != 2001 {
				t.Errorf("%d tables: granted %v, %v, want IDs from 2001 on", tables, granted, err)
			}
		})
	}
}

// TestIgnoredProcesses: a decision adds to the processes whose claims are void. The
// latest are kept, each once.
func TestIgnoredProcesses(t *testing.T) {
	t.Parallel()
	var many []string
	for n := range maxIgnored {
		many = append(many, fmt.Sprint("p", n))
	}
	for _, c := range []struct{ before, others, want []string }{
		{nil, []string{"a"}, []string{"a"}},
		{[]string{"a", "b"}, []string{"c"}, []string{"a", "b", "c"}},
		{[]string{"a", "b"}, []string{"a"}, []string{"b", "a"}},
		{many, []string{"a"}, append(slices.Clone(many[1:]), "a")},
	} {
		if got := ignored(c.before, c.others); !slices.Equal(got, c.want) {
			t.Errorf("%q and %q: %q, want %q", c.before, c.others, got, c.want)
		}
	}
}
