// Package metric declares Prometheus metrics beside the counters that they are
// read from. A part of a process has a method that sends its metrics to a
// [Sink], and the process collects all of them.
package metric

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Declare declares a metric. The name gets the prefix idworker_.
func Declare(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("idworker_"+name, help, labels, nil)
}

// Sink receives metrics.
type Sink struct {
	To      chan<- prometheus.Metric
	MaxTags int // tags with their own metrics, at most
}

// Gauge sends the value of a gauge.
func (s Sink) Gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.To <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// BoolGauge sends a gauge that is 1 or 0.
func (s Sink) BoolGauge(d *prometheus.Desc, is bool, labels ...string) {
	v := 0.0
	if is {
		v = 1
	}
	s.Gauge(d, v, labels...)
}

// Counter sends the value of a counter.
func (s Sink) Counter(d *prometheus.Desc, v int64, labels ...string) {
	s.To <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

// Histogram counts durations in buckets whose bounds double, from a microsecond
// to half a minute. Observe costs two atomic additions.
type Histogram struct {
	buckets [histogramBuckets + 1]atomic.Int64 // the last is for longer durations
	sum     atomic.Int64                       // nanoseconds
}

// The bounds are 2^histogramLeast ns, twice that, and so on.
const (
	histogramLeast   = 10 // 2^10 ns are about 1 µs
	histogramBuckets = 26 // up to 2^35 ns, about 34 s
)

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 1)
	// A bucket includes its upper bound.
	bucket := max(0, bits.Len64(uint64(d-1))-histogramLeast)
	h.buckets[min(bucket, histogramBuckets)].Add(1)
	h.sum.Add(int64(d))
}

// Histogram sends a histogram, with so many additional durations of zero.
func (s Sink) Histogram(d *prometheus.Desc, h *Histogram, zeros int64, labels ...string) {
	upTo := make(map[float64]uint64, histogramBuckets)
	sum := time.Duration(h.sum.Load())
	count := uint64(zeros)
	for i := range histogramBuckets {
		count += uint64(h.buckets[i].Load())
		upTo[time.Duration(1<<(i+histogramLeast)).Seconds()] = count
	}
	count += uint64(h.buckets[histogramBuckets].Load())
	s.To <- prometheus.MustNewConstHistogram(d, count, sum.Seconds(), upTo, labels...)
}
