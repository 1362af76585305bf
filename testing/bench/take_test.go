package bench

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

const (
	takeRounds = 1001
	takeBar    = 6 // × a bare atomic add, the look-up of the tag included

	// A round is so short that other processes leave most rounds alone.
	takesInRound = 10_000
)

// BenchmarkTake measures the allocator's hit path, look-up of the tag included,
// beside a bare atomic add. With many tags, two more baselines show the share
// of time in which the processor waits for memory: an atomic add to as many
// counters, and a look-up in a map of as many, each visited in the same order.
func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		what      string
		tags, hot int
	}{
		{"1 tag", 1, 1},
		{"1,000 tags", 1_000, 1_000},
		{"100,000 tags, 1,000 of them hot", 100_000, 1_000},
		{"100,000 tags, all equally hot", 100_000, 100_000},
		{"1,000,000 tags, 1 of them hot", 1_000_000, 1},
	} {
		b.Run(fmt.Sprintf("tags=%d/hot=%d", c.tags, c.hot), func(b *testing.B) {
			names := tagNames(c.tags)
			visits := shuffled(names)[:c.hot]
			if c.hot < takesInRound {
				visits = slices.Repeat(visits, takesInRound/c.hot)
			}
			benchmarkTake(b, "take, "+c.what, names, visits)
		})
	}
}

// cell is a counter with a cache line of its own.
type cell struct {
	atomic.Int64
	_ [56]byte
}

func benchmarkTake(b *testing.B, what string, names, visits []string) {
	var one atomic.Int64
	cells := make([]cell, len(names))
	byName := make(map[string]*cell, len(names))
	for i, name := range names {
		byName[name] = &cells[i]
	}
	order := make([]*cell, len(visits)) // the look-ups' results
	for i, name := range visits {
		order[i] = byName[name]
	}
	alloc := filled(names)

	if n := testing.AllocsPerRun(takesInRound, func() { alloc.Take(visits[0], 1) }); n != 0 {
		b.Errorf("%v allocations in a take, want 0", n)
	}
	// Each side goes on where it stopped in the round before. Rounds are
	// written out because a call per take would cost as much as the baseline.
	perOp := func(round func(from int)) func() float64 {
		from := 0
		return func() float64 {
			start := time.Now()
			round(from)
			took := time.Since(start)
			from = (from + takesInRound) % len(visits)
			return float64(took.Nanoseconds()) / takesInRound
		}
	}
	figures := inTurns(takeRounds,
		perOp(func(from int) {
			for _, name := range visits[from : from+takesInRound] {
				if _, ok := alloc.Take(name, 1); !ok {
					b.Fatal("a take missed")
				}
			}
		}),
		perOp(func(from int) {
			for range visits[from : from+takesInRound] {
				one.Add(1)
			}
		}),
		perOp(func(from int) {
			for _, cell := range order[from : from+takesInRound] {
				cell.Add(1)
			}
		}),
		perOp(func(from int) {
			for _, name := range visits[from : from+takesInRound] {
				byName[name].Add(1)
			}
		}),
	)
	take, add := figures[0], figures[1]
	ratio := medianRatio(take, add)
	b.ReportMetric(median(slices.Clone(take)), "ns/op")
	b.ReportMetric(median(slices.Clone(add)), "ns/add")
	b.ReportMetric(ratio, "×add")
	b.ReportMetric(0, "allocs/op")
	for i, beside := range []string{"one atomic add", "atomic adds to as many", "map look-up + atomic add"} {
		r := row{
			what: what, unit: "ns", subject: median(slices.Clone(take)), baseline: median(slices.Clone(figures[1+i])),
			beside: beside, ratio: medianRatio(take, figures[1+i]),
		}
		if i == 0 {
			r.bar, r.note = atMost(takeBar), "0 allocations"
		}
		table.add(r)
	}
}

// filled returns an allocator whose tags all have more IDs than will be taken.
func filled(names []string) *allocator.Allocator {
	alloc := allocator.New(allocator.Config{Clock: func() time.Duration { return 0 }})
	for _, name := range names {
		_, _ = alloc.TakeOrPark(allocator.Request{Tag: name, N: 1})
		load, _ := alloc.Send()
		alloc.Answer(name, load.Seq, allocator.Answer{Segment: store.Segment{First: 1, End: 1 << 50}, Step: 1000, Order: store.Trend})
		alloc.Replies()
	}
	return alloc
}
