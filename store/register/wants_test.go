package register

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// countedServer counts the requests.
type countedServer struct {
	*fakeServer
	polls, reads, updates int
}

func (c *countedServer) poll(ctx context.Context) (guard.Poll, error) {
	c.polls++
	return c.fakeServer.poll(ctx)
}

func (c *countedServer) read(ctx context.Context, tag string) (storedEntry, error) {
	c.reads++
	return c.fakeServer.read(ctx, tag)
}

func (c *countedServer) update(ctx context.Context, tag string, value []byte, revision uint64) (uint64, error) {
	c.updates++
	return c.fakeServer.update(ctx, tag, value, revision)
}

// hookedTable calls a function before it proposes a range.
type hookedTable struct {
	*fakeTable
	before func()
}

func (h *hookedTable) Reserve(ctx context.Context, tag string, n int64) (store.Segment, error) {
	h.before()
	return h.fakeTable.Reserve(ctx, tag, n)
}

// twoWants are wants of two loads: 10 IDs and 40 of a trend tag, 3 and 7 of a
// strict one.
var twoWants = []store.Want{{Waiting: 3, Most: 100}, {Step: 40, Waiting: 7, Most: 100}}

// TestCostOfAReservation: a reservation for several loads costs one write. The
// first of a process also reads the entry, and polls.
func TestCostOfAReservation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.server.loss = 0
		server := &countedServer{fakeServer: w.server}
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop()}, server)
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n := range int64(3) {
			*server = countedServer{fakeServer: w.server}
			granted, err := s.Reserve(t.Context(), "a", twoWants)
			if err != nil || granted.End() != 51+50*n || granted.Step != 10 {
				t.Fatalf("%+v, %v", granted, err)
			}
			if first := n == 0; server.updates != 1 || (server.reads > 0) != first || (server.polls > 0) != first {
				t.Errorf("reservation %d cost %d polls, %d reads and %d writes", n, server.polls, server.reads, server.updates)
			}
		}
	})
}

// TestRowThatTakesLong: the commit of a row may take longer than a permit
// lives. The write that follows it has a permit of its own.
func TestRowThatTakesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, rows := tabledWorld(t)
		table := &hookedTable{rows, func() { time.Sleep(2 * guard.PollAge) }}
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop(), Table: table}, w.server)
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if granted, err := s.Reserve(t.Context(), "a", twoWants); err != nil || len(granted.Parts) != 2 {
				t.Fatalf("%+v, %v", granted, err)
			}
		}
	})
}

// TestOrderOfTheWrite: a reservation has the order of the entry that was
// written, and sizes of that order, although there was no entry yet
// when the row proposed the range.
func TestOrderOfTheWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, rows := tabledWorld(t)
		rows.rows["strict"] = 5
		table := &hookedTable{rows, func() {
			e := entry{Next: 1, Order: store.Strict}
			if _, err := w.server.update(t.Context(), "strict", e.encode(), 0); err != nil {
				t.Error(err)
			}
		}}
		s := newStore(Config{Prefix: prefix, Log: zap.NewNop(), Table: table}, w.server)
		if err := s.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		granted, err := s.Reserve(t.Context(), "strict", twoWants)
		if err != nil || granted.Order != store.Strict || len(granted.Parts) != 2 || granted.Parts[0] != (store.Segment{First: 5, End: 8}) || granted.Parts[1] != (store.Segment{First: 8, End: 15}) {
			t.Errorf("%+v, %v, want 3 and 7 IDs of a strict tag from 5 on", granted, err)
		}
		if e := w.server.keys["strict"]; e.Order != store.Strict || e.Next < granted.End() {
			t.Errorf("the entry is %+v after %+v", e, granted)
		}
	})
}
