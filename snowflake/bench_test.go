package snowflake_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// wide is a layout whose ceiling does not bind: 8 million IDs per millisecond.
func wide(tb testing.TB) snowflake.Layout {
	tb.Helper()
	spec := snowflake.Default().Spec()
	spec.Time, spec.Worker, spec.Sequence = 38, 2, 23
	l, err := snowflake.NewLayout(spec)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func unfenced(tb testing.TB, l snowflake.Layout) *snowflake.Generator {
	tb.Helper()
	g, err := snowflake.New(snowflake.Settings{Layout: l, Worker: 1, Fence: snowflake.Fence{Hi: snowflake.Forever}})
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// The baseline of the other benchmarks: the least cost of a counter.
func BenchmarkAtomicAdd(b *testing.B) {
	var n atomic.Int64
	b.ReportAllocs()
	for b.Loop() {
		n.Add(1)
	}
}

func BenchmarkAtomicAddParallel(b *testing.B) {
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n.Add(1)
		}
	})
}

func BenchmarkSystemClock(b *testing.B) {
	clock := snowflake.SystemClock()
	b.ReportAllocs()
	for b.Loop() {
		clock()
	}
}

func BenchmarkNext(b *testing.B) {
	g := unfenced(b, wide(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNextParallel(b *testing.B) {
	g := unfenced(b, wide(b))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// 100 IDs per operation.
func BenchmarkNextN(b *testing.B) {
	g := unfenced(b, wide(b))
	var ranges []snowflake.IDRange
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if ranges, err = g.NextN(ranges[:0], 100); err != nil {
			b.Fatal(err)
		}
	}
}

// The default layout has a ceiling of 4,096,000 IDs a second. The metric is the
// share of it that is reached, once the generator has borrowed all it may.
func BenchmarkNextCeiling(b *testing.B) {
	g := unfenced(b, snowflake.Default())
	for {
		if _, err := g.NextN(nil, 4096); err != nil {
			break
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for {
			_, err := g.Next()
			if err == nil {
				break
			}
			if !errors.Is(err, snowflake.ErrAhead) {
				b.Fatal(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds()/4_096_000, "%ceiling")
}
