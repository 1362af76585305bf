package lease

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGivenWorkerIDIsHeld: a second process with the same worker ID is refused.
// It learns the holder and takes no other worker ID, and the first keeps its
// own.
func TestGivenWorkerIDIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(6)
		p, q := w.process("first", 1), w.process("second", 2)
		p.given, q.given = new(int64(5)), new(int64(5))
		first := runManager(t, p.manager())
		g := first.waitHeld(t).Generator
		second := runManager(t, q.manager())
		<-second.done
		var held *HeldError
		if !errors.As(second.err, &held) || !errors.Is(second.err, ErrHeld) || !held.Alive {
			t.Fatal(second.err)
		}
		host, _ := os.Hostname()
		if held.Worker != 5 || held.Instance != "first" || held.Host != host || time.Since(held.Since) > time.Hour {
			t.Errorf("%+v", held)
		}
		for _, part := range []string{`5, by process "first"`, host, "which is alive"} {
			if !strings.Contains(held.Error(), part) {
				t.Errorf("%q lacks %q", held, part)
			}
		}
		for _, s := range second.all() {
			if s.Generator != nil {
				t.Errorf("it had worker ID %d", s.Worker)
			}
		}
		if n := len(first.all()); n != 1 || first.state().Generator != g {
			t.Errorf("the first one changed: %v", first.all())
		}
		mustNext(t, g)
	})
}

// TestGivenWorkerIDAfterACrash: a process that starts right after its
// predecessor was killed waits until the latter's lease has ended, and then its
// longer fence. Then it gets the worker ID, and none of its predecessor's time.
func TestGivenWorkerIDAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(6)
		w.workers.setLifetime(shortTTL)
		p, q := w.process("predecessor", 1), w.process("successor", 2)
		p.given, q.given = new(int64(5)), new(int64(5))
		g := runManager(t, p.manager()).waitHeld(t).Generator
		p.net.set(func() { p.net.dead = true })
		after := runManager(t, q.manager())
		after.waitFor(t, ErrHeld)
		last := mustNext(t, g)
		for !after.held() {
			if id, err := g.Next(); err == nil {
				last = id
			}
			time.Sleep(100 * time.Millisecond)
		}
		first := after.waitID(t)
		if w.layout.WorkerID(first) != 5 || w.layout.Timestamp(first) <= w.layout.Timestamp(last) {
			t.Errorf("%d comes after %d", first, last)
		}
		after.waitFor(t, ErrNoWorkerID)
		for _, s := range after.all() {
			var held *HeldError
			if errors.As(s.Err, &held) && (held.Alive || held.Instance != "predecessor") {
				t.Error(held)
			}
		}
	})
}

// TestWatchedHolder: only renewals that came after the first look count, and
// not that a replica lags.
func TestWatchedHolder(t *testing.T) {
	for _, tc := range []struct {
		seen  []uint64
		alive bool
	}{
		{[]uint64{7}, false},
		{[]uint64{7, 7, 7, 7}, false},
		{[]uint64{7, 9, 9}, false}, // the first was in flight
		{[]uint64{7, 9, 7, 9, 7}, false},
		{[]uint64{7, 9, 12}, true},
		{[]uint64{7, 7, 9, 9, 12}, true},
	} {
		var w holderWatch
		for _, revision := range tc.seen {
			w.see(revision)
		}
		if alive := w.renewals >= aliveRenewals; alive != tc.alive {
			t.Errorf("%v: alive %v", tc.seen, alive)
		}
	}
}
