package worker

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// histogram counts durations in buckets whose bounds double, from a microsecond to half a
// minute. Observing costs only two atomic additions, because every request does it.
type histogram struct {
	buckets [histogramBuckets + 1]atomic.Uint64 // the last is for what is longer
	sum     atomic.Int64                        // nanoseconds
}

// The bounds are 2^histogramLeast ns, twice that, and so on.
const (
	histogramLeast   = 10 // 2^10 ns are about 1 µs
	histogramBuckets = 26 // up to 2^35 ns, about 34 s
)

func (h *histogram) observe(d time.Duration) {
	d = max(d, 1)
	bucket := max(0, bits.Len64(uint64(d-1))-histogramLeast) // a bucket includes its upper bound
	h.buckets[min(bucket, histogramBuckets)].Add(1)
	h.sum.Add(int64(d))
}

// metric returns the histogram as Prometheus wants it.
func (h *histogram) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	upTo := make(map[float64]uint64, histogramBuckets)
	sum := time.Duration(h.sum.Load())
	var count uint64
	for i := range histogramBuckets {
		count += h.buckets[i].Load()
		upTo[time.Duration(1<<(i+histogramLeast)).Seconds()] = count
	}
	count += h.buckets[histogramBuckets].Load()
	return prometheus.MustNewConstHistogram(desc, count, sum.Seconds(), upTo, labels...)
}
