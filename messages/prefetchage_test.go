package messages_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// stocked returns a prefetcher with a stock behind its current range, and the
// first ID that is not granted yet. Time stands still from then on.
func stocked(t *testing.T, srv virtual) (p *messages.Prefetcher, source *numbers, end int64) {
	t.Helper()
	source = startNumbers(t, srv.Connect(t), "order", 1, 100)
	p = prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{MaxBatch: 100})
	for i := range 1000 {
		if i%10 == 0 {
			time.Sleep(time.Millisecond)
		}
		takeOne(t, p)
	}
	synctest.Wait() // for the replies
	for current, stock, _ := p.Counts(); current == 0 || stock == 0; current, stock, _ = p.Counts() {
		takeOne(t, p)
		synctest.Wait()
	}
	return p, source, source.next.Load()
}

func takeOne(t *testing.T, p *messages.Prefetcher) int64 {
	t.Helper()
	id, err := p.Next(within(t, long))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestPrefetchYoung: after 59 seconds without a call, buffered IDs are used.
func TestPrefetchYoung(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		p, _, end := stocked(t, srv)
		current, stock, _ := p.Counts()
		time.Sleep(59 * time.Second)
		for range current + stock {
			if id := takeOne(t, p); id >= end {
				t.Fatalf("ID %d, want those below %d first", id, end)
			}
		}
	})
}

// TestPrefetchOld: IDs older than a minute are discarded, without a call, and
// so are those that arrived in the future. The next call begins with a request
// for a single ID.
func TestPrefetchOld(t *testing.T) {
	for name, c := range map[string]struct{ idle, step time.Duration }{
		"idle":                 {61*time.Second + time.Millisecond, 0},
		"clock stepped ahead":  {time.Second + time.Millisecond, time.Minute},
		"clock stepped back":   {time.Second + time.Millisecond, -5 * time.Second},
		"and an hour has gone": {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, srv virtual) {
				p, source, end := stocked(t, srv)
				p.SetWall(func() time.Time { return time.Now().Add(c.step) })
				time.Sleep(c.idle)
				synctest.Wait()
				if current, stock, _ := p.Counts(); current != 0 || stock != 0 {
					t.Errorf("%d and %d IDs are still buffered", current, stock)
				}
				if id := takeOne(t, p); id < end {
					t.Errorf("ID %d is old", id)
				}
				synctest.Wait()
				if n := source.next.Load() - end; n > 3 {
					t.Errorf("%d IDs were requested for one", n)
				}
			})
		})
	}
}

// TestPrefetchOldRange: the wall clock is read when a range is begun, so a
// process that wakes up a minute later uses at most the current range.
func TestPrefetchOldRange(t *testing.T) {
	for name, step := range map[string]time.Duration{"ahead": time.Minute + time.Nanosecond, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, srv virtual) {
				p, _, end := stocked(t, srv)
				p.SetWall(func() time.Time { return time.Now().Add(step) })
				current, _, _ := p.Counts()
				for range current {
					takeOne(t, p)
				}
				if id := takeOne(t, p); id < end {
					t.Errorf("ID %d is old", id)
				}
			})
		})
	}
}

// TestPrefetchAgeOfBusy: no ID is lost while callers use IDs at a steady rate,
// whatever the Runway.
func TestPrefetchAgeOfBusy(t *testing.T) {
	for name, c := range map[string]struct {
		runway, pause time.Duration
		rounds, takes int
		buffered      int64 // at most
	}{
		"often":              {time.Second, 100 * time.Millisecond, 3000, 3, 1000},
		"often, long runway": {time.Hour, 100 * time.Millisecond, 3000, 3, 1000},
		"every 35 seconds":   {time.Second, 35 * time.Second, 100, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, srv virtual) {
				startNumbers(t, srv.Connect(t), "order", 1, 10_000)
				p := prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{Runway: c.runway})
				var taken []int64
				for range c.rounds {
					for range c.takes {
						taken = append(taken, takeOne(t, p))
					}
					time.Sleep(c.pause)
				}
				// Replies may overtake each other.
				if last, n := slices.Max(taken), int64(len(taken)); last > n+c.buffered {
					t.Errorf("%d IDs up to %d: more are lost than can be buffered", n, last)
				}
			})
		})
	}
}

// TestPrefetchCloseStopsTimer: Close does not wait for the next check of the
// age.
func TestPrefetchCloseStopsTimer(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		p, _, _ := stocked(t, srv)
		begin := time.Now()
		p.Close()
		if took := time.Since(begin); took > 0 {
			t.Errorf("Close took %v", took)
		}
		if current, stock, _ := p.Counts(); current != 0 || stock != 0 {
			t.Errorf("%d and %d IDs are still buffered", current, stock)
		}
	})
}

// TestPrefetchDiscardUnderLoad: each ID is returned once and counted once while
// the buffer is discarded under its callers.
func TestPrefetchDiscardUnderLoad(t *testing.T) {
	t.Parallel()
	const callers = 8
	discards := tier.Pick(30, 300)
	srv := natstest.Start(t)
	source := startNumbers(t, srv.Connect(t), "order", 1, 10_000)
	p := prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{})
	ctx := within(t, long)
	taken := make([][]int64, callers)
	var done atomic.Bool
	var takers sync.WaitGroup
	for i := range callers {
		takers.Go(func() {
			for !done.Load() {
				id, err := p.Next(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				taken[i] = append(taken[i], id)
			}
		})
	}
	for range discards {
		for current, _, _ := p.Counts(); current < 20 && ctx.Err() == nil; current, _, _ = p.Counts() {
			runtime.Gosched()
		}
		p.Discard()
	}
	done.Store(true)
	takers.Wait()
	seen := make([]bool, source.next.Load())
	all := slices.Concat(taken...)
	for _, id := range all {
		if id < 1 || id >= int64(len(seen)) || seen[id] {
			t.Fatalf("ID %d: twice, or never granted", id)
		}
		seen[id] = true
	}
	if _, _, handed := p.Counts(); handed != int64(len(all)) {
		t.Errorf("%d IDs are counted, %d were returned", handed, len(all))
	}
}
