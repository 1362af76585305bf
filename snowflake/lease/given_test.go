package lease

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
)

// patientConfig has a TTL in which a busy machine has time for a heartbeat, and
// for noticing the lease of a dead holder.
func patientConfig(t *testing.T, net connector) Config {
	t.Helper()
	cfg := config(newJS(t, net))
	cfg.TTL = DefaultTTL
	if err := Create(t.Context(), cfg.JS, prefix, cfg.TTL, 1); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestGivenWorkerID: each process gets its configured worker ID, in each
// datacenter, and again after a restart; after a clean stop without delay.
func TestGivenWorkerID(t *testing.T) {
	t.Parallel()
	patient := patientConfig(t, natstest.Start(t))
	last := make(map[string]snowflake.ID)
	for range 3 {
		var all []*runner
		for datacenter := range int64(2) {
			for _, worker := range []int64{0, 7, 31} {
				cfg := patient
				cfg.Layout, cfg.Datacenter, cfg.Worker = snowflake.Twitter(), datacenter, new(worker)
				r := run(t, cfg)
				id := r.waitID(t)
				if cfg.Layout.WorkerID(id) != worker || cfg.Layout.Datacenter(id) != datacenter || r.state().Worker != worker {
					t.Errorf("worker ID %d of datacenter %d made %d: %d of %d", worker, datacenter, id, cfg.Layout.WorkerID(id), cfg.Layout.Datacenter(id))
				}
				key := fmt.Sprintf("%d.%d", datacenter, worker)
				if id <= last[key] {
					t.Errorf("worker ID %s made %d after %d", key, id, last[key])
				}
				last[key] = id
				all = append(all, r)
			}
		}
		for _, r := range all {
			r.stop()
		}
		for _, r := range all {
			<-r.done
			if r.err != nil {
				t.Log(r.err) // the next process has to wait
			}
		}
	}
}

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
// predecessor was killed waits until the latter's lease and fence have ended.
// Then it gets the worker ID, and none of its predecessor's time.
func TestGivenWorkerIDAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = layoutOf(6)
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
		for _, s := range after.all() {
			var held *HeldError
			if errors.As(s.Err, &held) && (held.Alive || held.Instance != "predecessor") {
				t.Error(held)
			}
		}
	})
}

// TestGivenIsFreeOnlyAfterTheFence: an expired lease is not enough. Nor is
// another worker ID taken that is free.
func TestGivenIsFreeOnlyAfterTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.workers.setLifetime(shortTTL)
		p := w.process("p", 1)
		began := time.Now()
		h := mustSeek(t, p.manager())
		last := mustNext(t, h.gen)

		m := w.process("q", 2).manager()
		m.cfg.Worker = &h.worker
		for ; ; time.Sleep(100 * time.Millisecond) {
			got, err := m.seek(t.Context())
			if id, err := h.gen.Next(); err == nil {
				last = id
			}
			if err == nil {
				id := mustNext(t, got.gen)
				if got.worker != h.worker || narrow.Timestamp(id) <= narrow.Timestamp(last) {
					t.Errorf("worker ID %d, and %d after %d", got.worker, id, last)
				}
				return
			}
			since := time.Since(began)
			if want := map[bool]error{true: ErrHeld, false: ErrNoWorkerID}[since < shortTTL-200*time.Millisecond]; !errors.Is(err, want) &&
				(since < shortTTL-200*time.Millisecond || since > shortTTL+200*time.Millisecond) {
				t.Fatalf("after %v: %v, want %v", since, err, want)
			}
			if since > fenceLength(shortTTL)+queryTime+time.Second {
				t.Fatalf("after %v: %v", since, err)
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
