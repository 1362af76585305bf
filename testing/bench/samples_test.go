package bench

import (
	"math"
	"slices"
	"testing"
	"time"
)

// median of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// medianRatio is the median of a[i] ÷ b[i], the figures of the rounds of two
// sides.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

// percentile is the value that the part p of the sorted samples does not
// exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}

func TestPercentile(t *testing.T) {
	samples := make([]time.Duration, 1000)
	for i := range samples {
		samples[i] = time.Duration(i + 1)
	}
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := percentile(samples, p); got != want {
			t.Errorf("%v of 1 to 1000: %d, want %d", p, got, want)
		}
	}
}

func TestMedianRatio(t *testing.T) {
	if got := medianRatio([]float64{2, 90, 3}, []float64{1, 10, 1}); got != 3 {
		t.Errorf("%v, want 3", got)
	}
}
