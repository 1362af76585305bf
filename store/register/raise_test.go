package register

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
)

// alone are the options of a raise that waits for no permits.
var alone = MarkOptions{Over: true, Alone: true}

// raiseAll raises all tags, and decides, as an administrator's command does: if
// its mark is gone, it starts over, above what has been decided since.
func raiseAll(ctx context.Context, admin *Register, r Raise, o MarkOptions, report func(Effect)) (target int64, err error) {
	for {
		m, err := admin.Mark(ctx, r.Target, o)
		var corrupt error
		if err == nil {
			r.Target = m.Target()
			worked := admin.Rewrite(ctx, r, report)
			if errors.Is(worked, store.ErrCorrupt) {
				corrupt, worked = worked, nil
			}
			err = m.Finish(ctx, worked, Decision{Time: time.Now()})
		}
		if err == nil {
			return r.Target, corrupt
		}
		if !errors.Is(err, ErrUnmarked) || r.By > 0 {
			return 0, err
		}
		floor, err := agreement.Floor(ctx, admin.cfg.JetStream, prefix)
		if err != nil {
			return 0, err
		}
		r.Target = max(r.Target, store.Beyond(floor, Slack))
	}
}

// admin opens the register to raise it.
func (s site) admin() *Register {
	s.Helper()
	admin, err := OpenToRaise(s.Context(), connect(s, s.srv), 1, 0, true)
	if err != nil {
		s.Fatal(err)
	}
	return admin
}

// importTags creates n tags t0000, t0001, … that begin at 1.
func (s site) importTags(n int) {
	s.Helper()
	var list []store.Tag
	for i := range n {
		list = append(list, store.Tag{Name: fmt.Sprintf("t%04d", i), Step: 10, Next: 1, Order: store.Trend})
	}
	err := handle(s, connect(s, s.srv)).Rewrite(s.Context(), Import{list}, func(Effect) {})
	if err != nil {
		s.Fatal(err)
	}
}

func (s site) entry(tag string) storedEntry {
	s.Helper()
	r, err := s.admin().remote.read(s.Context(), tag)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s site) lastSequence() uint64 {
	s.Helper()
	found, err := pollLeader(s.Context(), s.js, BucketName(prefix))
	if err != nil {
		s.Fatal(err)
	}
	return found.Last
}

// lister calls a function before it passes the last of some entries.
type lister struct {
	remote
	entries int
	last    func(tag string)
}

func (l lister) each(ctx context.Context, visit func(tag string, e listed, written time.Time) bool) error {
	n := 0
	return l.remote.each(ctx, func(tag string, e listed, written time.Time) bool {
		if n++; n == l.entries {
			l.last(strings.Clone(tag))
		}
		return visit(tag, e, written)
	})
}

// TestRaiseWaitsForPermits: the register was restored and is raised at once. A
// loader whose permit is older than the restore grants nothing from an entry
// that is not lifted yet, although the raise has lifted the sequence above all
// that the loader has seen.
func TestRaiseWaitsForPermits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const tags = 2*kv.MaxBatch + 1
	s.importTags(tags)
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(BucketName(prefix)))
	s.reserve(handle(t, connect(t, s.srv)), "t0000", 1)
	loader := handle(t, connect(t, s.srv)) // has read no tag
	if err := loader.poll(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	seen := s.lastSequence()
	older.Restore(t, s.conn)
	admin := s.admin()
	admin.remote = lister{admin.remote, tags, func(tag string) {
		natstest.Eventually(t, "the sequence is raised", func() bool { return s.lastSequence() > seen })
		if seg, err := storetest.Reserve(t.Context(), loader, tag, 10); err == nil {
			t.Errorf("%s: %v is granted from an entry that was put back", tag, seg)
		}
	}}
	raised := make(map[string]bool)
	if _, err := raiseAll(t.Context(), admin, Raise{Target: 1_000_000}, MarkOptions{Over: true}, func(c Effect) { raised[c.Name] = true }); err != nil {
		t.Fatal(err)
	}
	if len(raised) != tags {
		t.Errorf("%d tags raised", len(raised))
	}
	s.reserve(loader, "t0000", 1_000_000)
}

// TestRaiseInterrupted: a raise whose target is lower than that of an unfinished
// raise goes above that, because entries were lifted to it. Only a raise of all
// tags goes over its mark.
func TestRaiseInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importTags(1)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := raiseAll(ctx, s.admin(), Raise{Target: 5000}, alone, func(Effect) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if state, err := Look(t.Context(), s.js, prefix); err != nil || state.Marked != 5000 || state.Floor != 1 {
		t.Errorf("interrupted: %+v, %v", state, err)
	}
	loader := handle(t, connect(t, s.srv))
	if seg, err := storetest.Reserve(t.Context(), loader, "t0000", 10); !errors.Is(err, store.ErrRegressed) {
		t.Errorf("under the mark: %v, %v", seg, err)
	}
	if did, err := Bucket(prefix, 3).Apply(t.Context(), s.js); !errors.Is(err, ErrRaising) {
		t.Errorf("settings are changed under the mark: %s, %v", did, err)
	}
	if _, err := s.admin().Mark(t.Context(), 9000, MarkOptions{Alone: true}); !errors.Is(err, ErrRaising) {
		t.Errorf("an import goes over the mark: %v", err)
	}
	target, err := raiseAll(t.Context(), s.admin(), Raise{Target: 4000}, alone, func(Effect) {})
	if err != nil || target != 5001 {
		t.Fatalf("target %d, %v; want 5001", target, err)
	}
	state, err := Look(t.Context(), s.js, prefix)
	if err != nil || state.Marked != 0 || state.Floor != 5001 {
		t.Errorf("decided: %+v, %v", state, err)
	}
	if floor, err := agreement.Floor(t.Context(), s.js, prefix); err != nil || floor != 5001 {
		t.Errorf("the config has floor %d, %v", floor, err)
	}
	s.reserve(handle(t, connect(t, s.srv)), "t0000", 5001)
	if _, err := raiseAll(t.Context(), s.admin(), Raise{Target: 5001}, alone, nil); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("raised to the same target: %v", err)
	}
}

// TestAnnouncement: workers find a decision once it has been made, and not under
// the mark, when nobody would grant them anything else. A command that ended
// between the decision and the announcement is completed by the next.
func TestAnnouncement(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importTags(1)
	announced := func() agreement.Announcement {
		t.Helper()
		d, err := agreement.Decided(t.Context(), s.js, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	id, err := agreement.LookupID(t.Context(), s.js, prefix)
	if err != nil {
		t.Fatal(err)
	}
	admin := s.admin()
	admin.cfg.JetStream = late{admin.cfg.JetStream, func(jetstream.StreamConfig) { // just before mark and decision are written
		if d := announced(); d != (agreement.Announcement{}) {
			t.Errorf("announced before the decision: %+v", d)
		}
	}}
	if _, err := raiseAll(t.Context(), admin, Raise{Target: 5000}, alone, func(Effect) {}); err != nil {
		t.Fatal(err)
	}
	want := agreement.Announcement{Floor: 5000, Installation: id}
	if d := announced(); d != want {
		t.Errorf("announced is %+v, want %+v", d, want)
	}
	s.forget(agreement.DecidedKey)
	if err := Announce(t.Context(), s.js, prefix); err != nil || announced() != want {
		t.Errorf("announced later: %+v, %v; want %+v", announced(), err, want)
	}
}

// forget deletes a key of the installation's config.
func (s site) forget(key string) {
	s.Helper()
	config, err := s.js.KeyValue(s.Context(), agreement.BucketName(prefix))
	if err == nil {
		err = config.Delete(s.Context(), key)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// TestLineOfAGrant: a reservation has the floor of the decision under which it
// was made, and the sequence of its write.
func TestLineOfAGrant(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importTags(1)
	loader := handle(t, connect(t, s.srv))
	reserves := func(floor int64) {
		t.Helper()
		granted, err := loader.Reserve(t.Context(), "t0000", []store.Want{{Step: 10, Most: 10}})
		if want := (store.Line{Floor: floor, Sequence: s.entry("t0000").revision}); err != nil || granted.Line != want {
			t.Errorf("%+v, %v; want %+v", granted.Line, err, want)
		}
	}
	reserves(1)
	if _, err := raiseAll(t.Context(), s.admin(), Raise{Target: 5000}, alone, func(Effect) {}); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the loader takes over the decision", func() bool { return loader.poll(t.Context(), true) == nil && loader.Lowest() == 5000 })
	reserves(5000)
}

// late delays updates of streams that it is to delay.
type late struct {
	jetstream.JetStream
	delay func(jetstream.StreamConfig)
}

func (l late) UpdateStream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	l.delay(config)
	return l.JetStream.UpdateStream(ctx, config)
}

// TestRaiseUndoesNoOther: a raise whose mark or decision arrives late, after all
// of another raise, overwrites its decision. It then raises again, above it.
func TestRaiseUndoesNoOther(t *testing.T) {
	t.Parallel()
	for what, isLate := range map[string]func(jetstream.StreamConfig) bool{
		"mark":     func(c jetstream.StreamConfig) bool { return c.Metadata[metaRaising] != "" },
		"decision": func(c jetstream.StreamConfig) bool { return c.Metadata[metaRaising] == "" },
	} {
		s := newSite(t)
		s.importTags(1)
		var once sync.Once
		other := int64(0)
		admin := s.admin()
		admin.cfg.JetStream = late{admin.cfg.JetStream, func(c jetstream.StreamConfig) {
			if !isLate(c) {
				return
			}
			once.Do(func() {
				var err error
				if other, err = raiseAll(t.Context(), s.admin(), Raise{Target: 2000}, alone, func(Effect) {}); err != nil {
					t.Errorf("%s: the other raise: %v", what, err)
				}
			})
		}}
		target, err := raiseAll(t.Context(), admin, Raise{Target: 1000}, alone, func(Effect) {})
		if err != nil || other < 2000 || target <= other {
			t.Errorf("%s: raised to %d, the other to %d, %v", what, target, other, err)
		}
		if state, err := Look(t.Context(), s.js, prefix); err != nil || state.Marked != 0 || state.Floor != target {
			t.Errorf("%s: %+v, %v, want the floor %d", what, state, err, target)
		}
	}
}

// TestFailedRaise: after work that failed nothing is decided, and the mark stays.
// That the mark is another's, or gone, counts more.
func TestFailedRaise(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.importTags(1)
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(BucketName(prefix)))
	m, err := s.admin().Mark(t.Context(), 5000, alone)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Finish(t.Context(), errLost, Decision{}); !errors.Is(err, errLost) {
		t.Errorf("after work that failed: %v", err)
	}
	if state, err := Look(t.Context(), s.js, prefix); err != nil || state.Marked != 5000 || state.Floor != 1 {
		t.Errorf("%+v, %v", state, err)
	}
	if _, err := s.admin().Mark(t.Context(), 6000, alone); err != nil {
		t.Fatal(err)
	}
	over := m.Finish(t.Context(), nil, Decision{})
	older.Restore(t, s.conn)
	for _, worked := range []error{errLost, nil} {
		if gone := m.Finish(t.Context(), worked, Decision{}); !errors.Is(over, ErrOther) || !errors.Is(gone, ErrUnmarked) {
			t.Errorf("with the mark of another: %v; without the mark: %v", over, gone)
		}
	}
	if state, err := Look(t.Context(), s.js, prefix); err != nil || state.Floor != 1 {
		t.Errorf("%+v, %v", state, err)
	}
}

// refusing is a table with a constraint.
type refusing struct{ *fakeTable }

func (refusing) Raise(_ context.Context, tag string, _ int64) error {
	return &store.TableError{Table: "t", Tag: tag, Err: store.ErrSetup}
}

// TestRaiseRefusedByAConstraint: a raise fails if the table refuses a raised row.
func TestRaiseRefusedByAConstraint(t *testing.T) {
	t.Parallel()
	cfg := connect(t, newSite(t).srv)
	cfg.Table = refusing{newFakeTable(1, 0, "order")}
	of := new(store.TableError)
	if err := handle(t, cfg).Rewrite(t.Context(), Raise{Target: 7000}, func(Effect) {}); !errors.Is(err, store.ErrSetup) || !errors.As(err, &of) || of.Tag != "order" {
		t.Errorf("%v, want an ErrSetup of tag order", err)
	}
}

// TestRaiseRewritesEveryEntry: an entry above the target gets a new revision,
// which no earlier write fits.
func TestRaiseRewritesEveryEntry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const high = 1_700_000_000_000_000_000
	h := handle(t, connect(t, s.srv))
	if err := h.CreateTag(t.Context(), store.Tag{Name: "high", Step: 10, Next: high}); err != nil {
		t.Fatal(err)
	}
	s.create(h, "order")
	before := s.entry("high")
	plan := make(map[string]int64)
	r := Raise{Target: time.Now().UnixMicro()}
	admin := s.admin()
	if err := admin.Preview(t.Context(), r, func(c Effect) { plan[strings.Clone(c.Name)] = c.Next }); err != nil {
		t.Fatal(err)
	}
	if _, err := raiseAll(t.Context(), admin, r, alone, func(Effect) {}); err != nil {
		t.Fatal(err)
	}
	for tag, next := range plan {
		if got := s.entry(tag).Next; got != next {
			t.Errorf("%s is at %d, planned was %d", tag, got, next)
		}
	}
	if after := s.entry("high"); after.Next < high+Slack || after.revision == before.revision || len(plan) != 2 {
		t.Errorf("%+v, was %+v; planned %v", after, before, plan)
	}
}

// lateWriter has a loader's write arrive once, before the entries are listed.
type lateWriter struct {
	remote
	arrives func()
}

func (l lateWriter) each(ctx context.Context, visit func(tag string, e listed, written time.Time) bool) error {
	l.arrives()
	return l.remote.each(ctx, visit)
}

// TestRaiseAfterLateWrite: an entry at or above the target is lifted also if a
// write that was long under way replaces it after the raise has begun.
func TestRaiseAfterLateWrite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const high = 1_700_000_000_000_000_000
	h := handle(t, connect(t, s.srv))
	if err := h.CreateTag(t.Context(), store.Tag{Name: "high", Step: 10, Next: high}); err != nil {
		t.Fatal(err)
	}
	s.create(h, "order")
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(BucketName(prefix)))
	var lost store.Segment
	for range 5 {
		lost = s.reserve(h, "high", 1)
	}
	older.Restore(t, s.conn)
	admin := s.admin()
	server := admin.remote
	late := s.entry("high")
	admin.remote = lateWriter{server, sync.OnceFunc(func() {
		late.Next += 10
		if _, err := server.update(t.Context(), "high", late.encode(), late.revision); err != nil {
			t.Error(err)
		}
	})}
	if _, err := raiseAll(t.Context(), admin, Raise{Target: time.Now().UnixMicro()}, alone, func(Effect) {}); err != nil {
		t.Fatal(err)
	}
	s.reserve(handle(t, connect(t, s.srv)), "high", lost.End+Slack/2)
}
