package register

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/position"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
	"github.com/idworker/idworker/testing/natstest"
)

func newWitness(t *testing.T, name string) *Witness {
	t.Helper()
	w, err := OpenWitness(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWitnessFloor: a witness accepts a register only if the lowest first ID of
// new tags is at least its own, and above it after a decision that it lacks. It
// forgets no decision, even if it was the witness of another register.
func TestWitnessFloor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create(handle(t, connect(t, s.srv)), "order")
	s.raise(5999)
	found, err := pollLeader(t.Context(), s.js, BucketName(prefix))
	if err != nil || found.First != 6000 {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, c := range []struct {
		why   string
		known guard.Record
		want  int64 // 0 if it is refused
	}{
		{"lower", guard.Record{First: 5000, Position: position.Position{Last: 1e6}, Entries: 100}, 6000},
		{"lower, of another register", guard.Record{Position: position.Position{ID: "another"}, First: 5000}, 6000},
		{"the same without the decision", guard.Record{First: 6000}, 0},
		{"the same with the decision", guard.Record{First: 6000, Decisions: found.Decisions}, 6000},
		{"higher", guard.Record{First: 7000}, 0},
		{"higher with the decision", guard.Record{First: 7000, Decisions: found.Decisions}, 0},
		{"higher, of another register", guard.Record{Position: position.Position{ID: "another"}, First: 7000}, 0},
	} {
		w := newWitness(t, "witness")
		c.known.Decisions = append([]string{"older"}, c.known.Decisions...)
		if err := w.note(map[string]guard.Record{BucketName(prefix): c.known}); err != nil {
			t.Fatal(err)
		}
		err := w.Accept(t.Context(), s.js, prefix)
		got := w.record(BucketName(prefix))
		switch {
		case c.want == 0 && (!errors.Is(err, store.ErrRegressed) || got.First != c.known.First):
			t.Errorf("%s: accepted, and has %+v, %v", c.why, got, err)
		case c.want > 0 && (err != nil || got.First != c.want || got.Last != found.Last || got.ID != found.ID):
			t.Errorf("%s: has %+v, %v", c.why, got, err)
		case c.want > 0 && !slices.Equal(got.Decisions, []string{"older", found.Decisions[0]}):
			t.Errorf("%s: has the decisions %v", c.why, got.Decisions)
		}
	}
}

// TestSameRaiseTwice: a register that was put back twice, and raised by the same
// number both times, is refused by those who saw the first raise.
func TestSameRaiseTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWitness(t, "witness")
	open := func() (*Register, error) {
		cfg := connect(t, s.srv)
		cfg.Witness = w
		return Open(t.Context(), cfg)
	}
	s.create(handle(t, connect(t, s.srv)), "order")
	older := natstest.TakeSnapshot(t, s.conn, kv.StreamName(BucketName(prefix)))
	for _, again := range []bool{false, true} {
		older.Restore(t, s.conn)
		s.raise(1000)
		if err := w.Compare(t.Context(), s.js, prefix); errors.Is(err, store.ErrRegressed) != again {
			t.Errorf("compared, again %v: %v", again, err)
		}
		if _, err := open(); errors.Is(err, store.ErrRegressed) != again {
			t.Errorf("opened, again %v: %v", again, err)
		}
	}
}

// pausedJetStream calls looked after it has looked a stream up.
type pausedJetStream struct {
	jetstream.JetStream
	looked func(stream string)
}

func (js pausedJetStream) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := js.JetStream.Stream(ctx, name)
	js.looked(name)
	return stream, err
}

// TestNoteBesideAcceptance: a note that began before a decision is accepted does
// not write the earlier state of a bucket beside the register over the state
// that was accepted.
func TestNoteBesideAcceptance(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	clock, stream := "clock", kv.StreamName("clock")
	natstest.CreateBucket(t, s.js, clock)
	s.create(handle(t, connect(t, s.srv)), "order")
	put, err := s.js.KeyValue(t.Context(), clock)
	if err == nil {
		_, err = put.PutString(t.Context(), "x", "y")
	}
	if err != nil {
		t.Fatal(err)
	}
	var looked func()
	cfg := connect(t, s.srv)
	cfg.JetStream = pausedJetStream{cfg.JetStream, func(name string) {
		if do := looked; name == stream && do != nil {
			looked = nil
			do()
		}
	}}
	cfg.Witness, cfg.Beside = newWitness(t, "witness"), []string{clock}
	h := handle(t, cfg)
	accepted := make(chan error, 1)
	looked = func() {
		if err := s.js.DeleteKeyValue(t.Context(), clock); err != nil {
			t.Error(err)
		}
		natstest.CreateBucket(t, s.js, clock)
		s.raise(1000)
		go func() { accepted <- h.poll(t.Context(), true) }()
		select { // a note that excludes it ends first
		case err := <-accepted:
			accepted <- err
		case <-time.After(time.Second):
		}
	}
	if err := h.note(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	if seen := h.cfg.Witness.record(clock).Last; seen != 0 {
		t.Errorf("the witness has %d of the bucket that was made again, want 0", seen)
	}
}

// TestWitnessOfBefore: what one process noted before a decision does not
// contradict what another noted after it, of the buckets beside the register
// either.
func TestWitnessOfBefore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create(handle(t, connect(t, s.srv)), "order")
	const beside = "clock"
	natstest.CreateBucket(t, s.js, beside)
	clock, err := s.js.KeyValue(t.Context(), beside)
	for n := 0; err == nil && n < 5; n++ {
		_, err = clock.PutString(t.Context(), "key", "value")
	}
	if err != nil {
		t.Fatal(err)
	}
	before, after := newWitness(t, "before"), newWitness(t, "after")
	if err := before.Accept(t.Context(), s.js, prefix, beside); err != nil {
		t.Fatal(err)
	}
	if err := s.js.DeleteKeyValue(t.Context(), beside); err != nil {
		t.Fatal(err)
	}
	natstest.CreateBucket(t, s.js, beside)
	s.raise(1000)
	if err := after.Accept(t.Context(), s.js, prefix, beside); err != nil {
		t.Fatal(err)
	}
	for own, other := range map[*Witness]*Witness{before: after, after: before} {
		w, err := OpenWitness(own.Path(), other.Path())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Compare(t.Context(), s.js, prefix, beside); err != nil {
			t.Errorf("%s with %s: %v", own.Path(), other.Path(), err)
		}
	}
}
