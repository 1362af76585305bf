package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// names returns n names, from number first on.
func names(first, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("tag-%03d", first+i))
	}
	return list
}

func TestTooManyMissing(t *testing.T) {
	for _, c := range []struct {
		missing, tags int
		want          bool
	}{
		{0, 0, false}, {0, 5, false}, {1, 1, true}, {2, 2, true}, {1, 2, false}, {2, 3, false}, {3, 4, true}, {3, 29, true},
		{3, 30, false}, {4, 30, true}, {10, 100, false}, {11, 100, true}, {100, 100, true},
	} {
		if got := tooMany(c.missing, c.tags); got != c.want {
			t.Errorf("%d of %d: %t, want %t", c.missing, c.tags, got, c.want)
		}
	}
}

// listings plays listings to absences, in time that it makes up.
type listings struct {
	*absences
	t    *testing.T
	now  time.Time
	logs *observer.ObservedLogs
}

func newListings(t *testing.T) *listings {
	core, logs := observer.New(zap.InfoLevel)
	return &listings{newAbsences("store", time.Minute, zap.New(core)), t, time.Now(), logs}
}

// expect plays one listing, and checks what it leads to.
func (l *listings) expect(after time.Duration, missing []string, tags int, removed []string, unsure bool, held int64) {
	l.t.Helper()
	l.now = l.now.Add(after)
	gone, again := l.confirm(l.now, missing, tags)
	if !slices.Equal(gone, removed) || again != unsure || l.held.Load() != held {
		l.t.Fatalf("removed %v, unsure %t, %d held; want %v, %t, %d", gone, again, l.held.Load(), removed, unsure, held)
	}
}

// TestFewAreRemovedWhenConfirmed by a second listing, a moment after the first.
func TestFewAreRemovedWhenConfirmed(t *testing.T) {
	l := newListings(t)
	one, other := names(1, 1), names(2, 1)
	l.expect(0, one, 30, nil, true, 0)
	l.expect(time.Second, one, 30, nil, true, 0) // too soon
	l.expect(4*time.Second, one, 30, one, false, 0)
	l.expect(time.Minute, one, 30, nil, true, 0)
	l.expect(5*time.Second, nil, 30, nil, false, 0) // is back
	l.expect(time.Minute, one, 30, nil, true, 0)    // and begins anew
	l.expect(5*time.Second, append(other, one...), 30, one, true, 0)
	l.expect(5*time.Second, other, 29, other, false, 0)
	if l.logs.Len() != 0 || l.episodes.Load() != 0 {
		t.Errorf("logged %v", l.logs.All())
	}
}

// TestManyAreHeld over five listings and five refreshes, and back before: an error when it
// begins, one line when it ends.
func TestManyAreHeld(t *testing.T) {
	l := newListings(t)
	all := names(1, 40)
	l.expect(0, all, 40, nil, false, 40)
	l.expect(time.Minute, all[:20], 40, nil, false, 20)
	for range 2 {
		l.expect(time.Minute, all[:1], 40, nil, false, 1) // few by now, and held all the same
	}
	l.expect(time.Minute, nil, 40, nil, false, 0)
	expectLines(t, l.logs, lineMissing, lineNoneHeld)
	if end := l.logs.All()[1].ContextMap(); end["back"] != int64(40) || end["removed"] != int64(0) {
		t.Errorf("at the end %v, want 40 back", end)
	}

	l.expect(time.Minute, all, 40, nil, false, 40)
	for range 4 {
		l.expect(time.Minute, all[10:], 40, nil, false, 30)
	}
	l.expect(time.Minute-time.Second, all[10:], 40, nil, false, 30)
	l.expect(time.Second, all[10:], 40, all[10:], false, 0)
	l.expect(time.Minute, nil, 10, nil, false, 0)
	expectLines(t, l.logs, lineMissing, lineNoneHeld, lineMissing, lineNoneHeld)
	if end := l.logs.All()[3].ContextMap(); end["back"] != int64(10) || end["removed"] != int64(30) {
		t.Errorf("at the end %v, want 10 back and 30 removed", end)
	}
	if l.episodes.Load() != 2 {
		t.Errorf("%d episodes, want 2", l.episodes.Load())
	}
	if begin := l.logs.All()[0]; begin.Level != zap.ErrorLevel || begin.ContextMap()["missing"] != int64(40) || begin.ContextMap()["of"] != int64(40) {
		t.Errorf("at the beginning %v, want an error with counts", begin)
	}
}

const (
	lineMissing  = "tags are missing from the store, too many to believe that they were removed; keeping them for now"
	lineNoneHeld = "no tags are held any more that were missing from the store"
)

// TestTimeAloneIsNoProof: while the store cannot be listed, nothing is learned.
func TestTimeAloneIsNoProof(t *testing.T) {
	l := newListings(t)
	all := names(1, 3)
	l.expect(0, all, 3, nil, false, 3)
	for range 3 {
		l.expect(time.Hour, all, 3, nil, false, 3)
	}
	l.expect(time.Hour, all, 3, all, false, 0)
}

// TestFewBesideManyHeld: while many are held, one that goes missing is held too, because that
// is still more than can be believed. Afterwards it is not.
func TestFewBesideManyHeld(t *testing.T) {
	l := newListings(t)
	l.expect(0, names(1, 20), 100, nil, false, 20)
	l.expect(time.Minute, names(1, 21), 100, nil, false, 21)
	l.expect(time.Minute, names(20, 2), 100, nil, false, 2)
	l.expect(time.Minute, names(20, 3), 100, nil, true, 2)
	l.expect(5*time.Second, names(20, 3), 100, names(22, 1), false, 2)
}
