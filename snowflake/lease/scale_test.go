package lease

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/tier"
)

// layoutOf returns a layout with that many bits for the worker ID, for virtual
// time.
func layoutOf(bits int) snowflake.Layout {
	l, err := snowflake.NewLayout(snowflake.LayoutSpec{
		Epoch: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), Unit: 10 * time.Millisecond, Time: 39, Worker: bits, Sequence: 24 - bits,
	})
	if err != nil {
		panic(err)
	}
	return l
}

var wide = layoutOf(16) // 65,536 worker IDs, as Sonyflake has

// use makes it look as if the first n worker IDs had been used long ago.
func (w *world) use(t *testing.T, n int) {
	t.Helper()
	for worker := range n {
		value := encode(clockValue{Hi: 1, Hold: "before"})
		if _, err := w.clocks.write(bucketEntry{key: fmt.Sprint(worker), value: value}, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// usedIDs is how many worker IDs have an entry in the clock bucket.
func (w *world) usedIDs() (n int) {
	for _, r := range w.clocks.list() {
		if r.key != identityKey {
			n++
		}
	}
	return n
}

// TestManyStartAtOnce: many processes claim at the same moment. Whether no
// worker IDs were used before, or half as many as needed, or just enough, each
// process succeeds after a few tries on average; if all chose the same, it would
// take more than they have. There are no more entries than needed.
func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	n := tier.Pick(60, 1000)
	tight := layoutOf(tier.Pick(6, 10)) // just enough worker IDs
	for _, c := range []struct {
		layout snowflake.Layout
		used   int
	}{
		{wide, 0}, {wide, n / 2}, {wide, n}, {wide, 2 * n},
		{tight, 0}, {tight, n / 2}, {tight, n},
	} {
		t.Run(fmt.Sprintf("%d of %d used", c.used, c.layout.MaxWorkerID()+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.layout = c.layout
				w.use(t, c.used)
				before := w.workers.writes
				var wg sync.WaitGroup
				for i := range n {
					p := w.process(fmt.Sprint(i), uint64(i))
					wg.Go(func() {
						if _, err := p.manager().seek(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				// There are few calls per try, so this bounds them, too. The worst
				// case takes 2.7 n, with a standard deviation of 0.07 n.
				if tries := w.workers.writes - before; tries > 4*n {
					t.Errorf("%d tries of %d processes", tries, n)
				}
				if got, want := w.usedIDs(), max(n, c.used); got != want {
					t.Errorf("%d worker IDs were used, want %d", got, want)
				}
			})
		})
	}
}

// TestHeartbeatsSpread: processes that claimed at the same moment do not go on
// to write at the same moment.
func TestHeartbeatsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, slot = 40, modelTTL / beatsPerTTL / 10
		w := newWorld()
		w.layout = wide
		for i := range n {
			defer w.process(fmt.Sprint(i), uint64(i)).start(t.Context())()
		}
		time.Sleep(40 * modelTTL)
		most := 0
		for range 10 {
			before := w.workers.writeCount()
			time.Sleep(slot)
			most = max(most, w.workers.writeCount()-before)
		}
		if most > n/2 {
			t.Errorf("%d of %d heartbeats came in a tenth of the time", most, n)
		}
	})
}

// TestTTLLowered: a process whose lease expires between its heartbeats, because
// the TTL became shorter, keeps its worker ID and adopts the TTL, so that it is
// leased all the time again.
func TestTTLLowered(t *testing.T) {
	for _, ttl := range []time.Duration{modelTTL / 6, modelTTL / 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			p := w.process("p", 1)
			defer p.start(t.Context())()
			time.Sleep(time.Minute)
			g := p.holding()
			key := fmt.Sprint(w.layout.WorkerID(mustNext(t, g)))
			w.workers.setLifetime(ttl)
			time.Sleep(modelTTL)
			for range 600 {
				time.Sleep(time.Second)
				if _, err := w.workers.read(key, 0); err != nil {
					t.Fatalf("TTL %v: not leased: %v", ttl, err)
				}
			}
			if p.holding() != g {
				t.Errorf("TTL %v: the worker ID was lost", ttl)
			}
		})
	}
}
