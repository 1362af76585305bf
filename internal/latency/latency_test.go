package latency

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPercentilesAreRight compares them with those of the sorted times.
func TestPercentilesAreRight(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(i int) time.Duration{
		"even":     func(i int) time.Duration { return time.Duration(i+1) * time.Millisecond },
		"one":      func(int) time.Duration { return 345 * time.Microsecond },
		"two ends": func(i int) time.Duration { return time.Duration(40+(i%2)*7_000_000_000) * time.Nanosecond },
		"random":   func(int) time.Duration { return time.Duration(40 + random.ExpFloat64()*float64(time.Millisecond)) },
	} {
		t.Run(name, func(t *testing.T) {
			var a, b Histogram
			var all []time.Duration
			for i := range 10_000 {
				d := next(i)
				all = append(all, d)
				if i%3 == 0 {
					a.Add(d)
				} else {
					b.Add(d)
				}
			}
			a.Merge(&b)
			slices.Sort(all)
			for _, share := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
				want := all[min(int(share*float64(len(all))), len(all)-1)]
				if got := a.At(share); got < want || got > want+want/30 {
					t.Errorf("At(%v) = %v, want %v, or 3 %% more", share, got, want)
				}
			}
			if a.Max() != all[len(all)-1] || a.Count() != 10_000 {
				t.Errorf("Max() = %v, Count() = %d; want %v, 10000", a.Max(), a.Count(), all[len(all)-1])
			}
			below := int64(0)
			for limit, n := range a.Octaves() {
				below += n
				i, _ := slices.BinarySearch(all, limit)
				if below != int64(i) {
					t.Errorf("%d times lie below %v, want %d", below, limit, i)
				}
			}
			if below != 10_000 {
				t.Errorf("octaves have %d times, want all", below)
			}
		})
	}
}

func TestNothingCounted(t *testing.T) {
	var h Histogram
	if h.At(0.5) != 0 || h.Max() != 0 {
		t.Errorf("At(0.5) = %v, Max() = %v of nothing", h.At(0.5), h.Max())
	}
	for limit := range h.Octaves() {
		t.Errorf("an octave below %v of nothing", limit)
	}
	h.Add(-time.Second)
	h.Add(1<<63 - 1)
	if h.At(0) > 40 || h.At(1) != 1<<63-1 {
		t.Errorf("At(0) = %v, At(1) = %v", h.At(0), h.At(1))
	}
}
