// Package latency counts how long things took.
package latency

import (
	"iter"
	"math/bits"
	"time"
)

// Each step of a histogram is a 32nd of a power of two, so what it says is right to 3 %.
const (
	stepBits = 5
	steps    = 1 << stepBits
)

// Histogram counts times from 32 ns on; shorter ones count as that. Its memory does not grow, and its
// zero value is ready. It is not safe for concurrent use.
type Histogram struct {
	counts [64 * steps]int64
	n      int64
	max    time.Duration
}

// Add counts a time.
func (h *Histogram) Add(d time.Duration) {
	n := uint64(max(d, steps))
	exponent := bits.Len64(n) - 1 - stepBits
	h.counts[exponent*steps+int(n>>exponent)%steps]++
	h.n++
	h.max = max(h.max, d)
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Count is how many times were counted.
func (h *Histogram) Count() int64 { return h.n }

// Max is the longest time.
func (h *Histogram) Max() time.Duration { return h.max }

// At is the time that a share of all does not exceed, 0 to 1. It is at most 3 % too long, and 0 if
// nothing was counted.
func (h *Histogram) At(share float64) time.Duration {
	left := int64(share * float64(h.n))
	for i, n := range h.counts {
		if left -= n; left < 0 {
			return min(end(i), h.max)
		}
	}
	return h.max
}

// end is where a step ends.
func end(step int) time.Duration { return time.Duration(steps+step%steps+1) << (step / steps) }

// Octaves are how many times lay below a power of two of nanoseconds, and not below the half of it: from the
// first power with any to the last.
func (h *Histogram) Octaves() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		left := h.n
		for first := 0; left > 0; first += steps {
			var n int64
			for _, c := range h.counts[first : first+steps] {
				n += c
			}
			if left == h.n && n == 0 {
				continue
			}
			left -= n
			if !yield(end(first+steps-1), n) {
				return
			}
		}
	}
}
