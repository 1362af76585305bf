package bench

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
)

const (
	nextBar    = 60 // ns
	nextRounds = 301
	nextRound  = 10_000 // IDs of each goroutine

	ceiling       = 4_096_000 // IDs a second that the default layout has room for
	ceilingBar    = 0.99
	ceilingRounds = 9
	ceilingRound  = time.Second
)

// BenchmarkSnowflakeNext measures the time per ID with a layout that has room
// for 8 million a millisecond, so that no caller ever waits for time to pass,
// beside an atomic add. With several goroutines it is the time per ID of all of
// them together.
func BenchmarkSnowflakeNext(b *testing.B) {
	for _, goroutines := range slices.Compact([]int{1, runtime.GOMAXPROCS(0)}) {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) { benchmarkNext(b, goroutines) })
	}
}

func benchmarkNext(b *testing.B, goroutines int) {
	layout, err := snowflake.ParseLayout("38:1ms/w2/s23@1735689600000")
	if err != nil {
		b.Fatal(err)
	}
	g := newGenerator(b, layout)
	var one atomic.Int64
	next := func() {
		for range nextRound {
			if _, err := g.Next(); err != nil {
				b.Error(err)
				return
			}
		}
	}
	add := func() {
		for range nextRound {
			one.Add(1)
		}
	}
	if n := testing.AllocsPerRun(nextRound, func() { _, _ = g.Next() }); n != 0 {
		b.Errorf("%v allocations per ID, want 0", n)
	}
	perID := func(round func()) func() float64 {
		return func() float64 {
			start := time.Now()
			var wg sync.WaitGroup
			for range goroutines - 1 {
				wg.Go(round)
			}
			round()
			wg.Wait()
			return float64(time.Since(start).Nanoseconds()) / float64(nextRound*goroutines)
		}
	}
	figures := inTurns(nextRounds, perID(next), perID(add))
	cost, base := median(slices.Clone(figures[0])), median(slices.Clone(figures[1]))
	b.ReportMetric(cost, "ns/op")
	b.ReportMetric(0, "allocs/op")
	table.add(row{
		what: fmt.Sprintf("snowflake Next, %d goroutines", goroutines), unit: "ns", subject: cost, bar: atMost(nextBar),
		note: fmt.Sprintf("0 allocations; an atomic add %s ns, %.2f × that", figure(base), medianRatio(figures[0], figures[1])),
	})
}

// BenchmarkSnowflakeCeiling measures the share of the default layout's IDs that
// a single goroutine gets, once the generator has borrowed its maximum.
func BenchmarkSnowflakeCeiling(b *testing.B) {
	g := newGenerator(b, snowflake.Default())
	var shares []float64
	for range ceilingRounds {
		for next(b, g) {
		}
		start, n := time.Now(), 0
		for time.Since(start) < ceilingRound {
			for range 1000 {
				if !next(b, g) {
					time.Sleep(100 * time.Microsecond)
					break
				}
				n++
			}
		}
		shares = append(shares, float64(n)/time.Since(start).Seconds()/ceiling)
	}
	share := median(shares)
	b.ReportMetric(share, "×ceiling")
	b.ReportMetric(0, "ns/op")
	table.add(row{
		what: "snowflake Next, default layout", unit: "IDs/s", subject: share * ceiling, baseline: ceiling,
		beside: "all there are", ratio: share, bar: atLeast(ceilingBar),
	})
}

// next issues an ID, and reports false if none is left for now.
func next(b *testing.B, g *snowflake.Generator) bool {
	_, err := g.Next()
	if err != nil && !errors.Is(err, snowflake.ErrAhead) {
		b.Fatal(err)
	}
	return err == nil
}

func newGenerator(b *testing.B, layout snowflake.Layout) *snowflake.Generator {
	b.Helper()
	g, err := snowflake.New(snowflake.Settings{Layout: layout, Worker: 1, Fence: snowflake.Fence{Hi: snowflake.Forever}})
	if err != nil {
		b.Fatal(err)
	}
	return g
}
