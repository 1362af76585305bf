package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// start lets a process run, with all well, until the returned function is
// called.
func (p *process) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	m := p.manager()
	go func() {
		defer close(done)
		_ = m.Run(ctx, p.notify)
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestReach: a holder that is cut off at any moment serves for at least two
// thirds of the TTL, and at most the TTL. If that was not too long, it resumes
// as before.
func TestReach(t *testing.T) {
	t.Parallel()
	for seed := range 50 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			p := w.process("p", uint64(seed))
			defer p.start(t.Context())()
			time.Sleep(time.Minute + p.net.some(modelTTL/3))
			g := p.holding()

			p.net.set(func() { p.net.dead = true })
			began := time.Now()
			for {
				if _, err := g.Next(); errors.Is(err, snowflake.ErrFenced) || errors.Is(err, snowflake.ErrRevoked) {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if served := time.Since(began); served < modelTTL*2/3-100*time.Millisecond || served > modelTTL+100*time.Millisecond {
				t.Errorf("served for %v", served)
			}
			p.net.set(func() { p.net.dead = false })
			time.Sleep(modelTTL)
			again := p.holding()
			if again == nil || again == g {
				t.Fatal("did not recover")
			}

			p.net.set(func() { p.net.dead = true })
			time.Sleep(modelTTL / 2)
			p.net.set(func() { p.net.dead = false })
			time.Sleep(modelTTL)
			if p.holding() != again {
				t.Error("a short outage was too long")
			}
			mustNext(t, again)
		})
	}
}

// TestChoice: the process's previous worker ID comes first. Used worker IDs
// whose time is past come second, used ones within reach third, new worker IDs
// last. Others are not free.
func TestChoice(t *testing.T) {
	const now, ahead, none = 1000, 10, -1
	f := idTable{layout: layout64, leases: make(map[int64]leaseState), clocks: make(map[int64]clockState)}
	chosen := func(previous int64) map[int64]bool {
		t.Helper()
		seen := make(map[int64]bool)
		for range 2000 {
			worker, err := f.choose(previous, now, ahead, false)
			if err != nil {
				t.Fatal(err)
			}
			seen[worker] = true
		}
		return seen
	}
	expect := func(previous int64, want ...int64) {
		t.Helper()
		if seen := chosen(previous); !slices.Equal(slices.Sorted(maps.Keys(seen)), want) {
			t.Errorf("chosen were %v, want %v", seen, want)
		}
	}
	for worker := range int64(64) {
		f.clocks[worker] = clockState{hi: now + ahead + 1}
	}
	if _, err := f.choose(3, now, ahead, false); !errors.Is(err, ErrNoWorkerID) || !strings.Contains(err.Error(), "64 are reserved too far ahead") {
		t.Fatal(err)
	}
	delete(f.clocks, 60)
	delete(f.clocks, 61)
	delete(f.clocks, 62)
	f.leases[62] = leaseState{revision: 3} // a claim that is under way
	expect(none, 60, 61)
	expect(60, 60, 61) // it was never ours for certain
	f.clocks[5] = clockState{hi: now + ahead}
	expect(none, 5)
	f.clocks[7], f.clocks[8], f.clocks[9] = clockState{hi: now}, clockState{hi: now}, clockState{hi: now - 1}
	f.leases[8] = leaseState{revision: 1}
	expect(none, 7, 9)
	expect(5, 5)
	expect(8, 7, 9)
	f.leases[8] = leaseState{revision: 2, free: true}
	expect(none, 7, 8, 9)
	expect(8, 8)
}

// TestServerClockIsOutvoted: when the server's clock is off and three workers
// agree, they stay; a worker alone leaves.
func TestServerClockIsOutvoted(t *testing.T) {
	for _, workers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.layout = layoutOf(6)
			var all []*process
			for i := range workers {
				p := w.process(fmt.Sprint(i), uint64(i))
				all = append(all, p)
				defer p.start(t.Context())()
			}
			time.Sleep(time.Minute)
			for _, p := range all {
				p.net.set(func() { p.net.off = time.Hour })
			}
			w.workers.skew(time.Hour)
			time.Sleep(2 * modelTTL)
			for i, p := range all {
				if stays := p.holding() != nil; stays != (workers > 1) {
					t.Errorf("%d workers: worker %d stays: %v", workers, i, stays)
				}
			}
		})
	}
}

// TestPausedWhileTheServerIsAsked: a pause is no skew, because the moment of
// the server's answer is unknown.
func TestPausedWhileTheServerIsAsked(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	r := reading{before: noon, after: noon.Add(time.Hour), server: noon.Add(time.Minute)}
	if r.offServer(time.Second) || r.offPeers(peers{0, 0}, time.Second) {
		t.Error("off, although it may not be")
	}
	r.server = noon.Add(-2 * time.Second)
	if !r.offServer(time.Second) || r.offPeers(peers{2 * time.Second}, time.Second) || r.offPeers(nil, 0) {
		t.Error("wrong by two seconds, as are the others")
	}
	// A clock that is far off does not make the others wrong.
	if (peers{-time.Hour, 0, 0, time.Second}).median() != 0 {
		t.Error("median")
	}
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		layout             snowflake.Layout
		text               string
		datacenter, worker int64
		ok                 bool
	}{
		{layout64, "0", 0, 0, true},
		{layout64, "63", 0, 63, true},
		{layout64, "64", 0, 0, false},
		{layout64, "-1", 0, 0, false},
		{layout64, "+1", 0, 0, false},
		{layout64, "01", 0, 0, false},
		{layout64, "0.1", 0, 0, false},
		{layout64, "", 0, 0, false},
		{layout64, "x", 0, 0, false},
		{snowflake.Twitter(), "31.7", 31, 7, true},
		{snowflake.Twitter(), "32.7", 0, 0, false},
		{snowflake.Twitter(), "7", 0, 0, false},
		{snowflake.Twitter(), "1.2.3", 0, 0, false},
		{snowflake.Twitter(), "x.7", 0, 0, false},
	} {
		datacenter, worker, ok := parseKey(tc.layout, tc.text)
		if ok != tc.ok || ok && (datacenter != tc.datacenter || worker != tc.worker || key(tc.layout, datacenter, worker) != tc.text) {
			t.Errorf("%q: %d, %d, %v", tc.text, datacenter, worker, ok)
		}
	}
}

// TestEndOfTheLayout: there is a typed error, and no ID.
func TestEndOfTheLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.layout = snowflake.Default()
		p := w.process("p", 1)
		p.skew = 200 * 365 * 24 * time.Hour
		p.setClock(time.Until(w.layout.End().Add(-time.Minute)))
		defer p.start(t.Context())()
		time.Sleep(30 * time.Second)
		mustNext(t, p.holding())
		time.Sleep(time.Minute)
		if _, err := p.holding().Next(); !errors.Is(err, snowflake.ErrExhausted) {
			t.Fatal(err)
		}
		q := w.process("q", 2)
		q.skew = p.skew
		q.setClock(p.off)
		if _, err := q.manager().seek(t.Context()); !errors.Is(err, snowflake.ErrExhausted) {
			t.Fatal(err)
		}
	})
}
