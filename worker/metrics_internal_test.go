package worker

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
)

// TestMetricsTagLimit: with 5,000 tags in use, only the busiest have metrics of their own.
// The others are still part of the metrics of all tags.
func TestMetricsTagLimit(t *testing.T) {
	t.Parallel()
	const tags, limit = 5_000, 500
	net := NewAccount(t)
	now := time.Second
	p := processInfo{cfg: Config{Requests: net.Connect(t), Control: net.Connect(t), Log: zap.NewNop()}}
	var wished allocator.Load
	alloc := allocator.New(allocator.Config{Clock: func() time.Duration { return now }, Load: func(l allocator.Load) { wished = l }})
	supply := &supply{processInfo: p, alloc: alloc, grants: &grantReceiver{}, unanswered: new(unanswered)}
	a := newAnswering(p, supply, newSnowflakes(p, &lease.Manager{}))
	w := &Process{info: p, halves: []half{a}}
	names := make([]string, tags)
	for i := range names {
		names[i] = fmt.Sprintf("tag-%06d", i)
	}
	take := func(tag string, n int64) {
		if _, ok := alloc.Take(tag, n); !ok {
			t.Fatalf("%s has no %d IDs", tag, n)
		}
	}
	for _, tag := range names {
		if _, err := alloc.TakeOrPark(tag, allocator.Request{N: 100, Answer: func([]store.Segment, error) {}}); err != nil {
			t.Fatal(err)
		}
		alloc.CurrentLoad(tag, wished.Seq)
		alloc.Grant(tag, wished.Seq, allocator.Supply{Segment: store.Segment{First: 1, End: 1001}, Step: 1000, Order: store.Trend})
	}
	now = time.Minute
	for _, tag := range names {
		take(tag, 100+int64(tag[len("tag-")+3]-'0')) // the hundreds of a tag's number are its rate
	}

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.Metrics(limit))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	families, err := registry.Gather()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tags, %d with metrics of their own: gathered in %v, %.1f MB allocated meanwhile",
		tags, limit, took, float64(after.TotalAlloc-before.TotalAlloc)/1e6)

	perTag := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "tag" {
					perTag++
					if d := l.GetValue()[len("tag-")+3]; d != '9' {
						t.Fatalf("%s has metrics of its own, which is not among the busiest", l.GetValue())
					}
				}
			}
		}
		switch v := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() {
		case "idworker_tags", "idworker_tags_active":
			if v != tags {
				t.Errorf("%s is %v, want %d", f.GetName(), v, tags)
			}
		case "idworker_tags_unlisted":
			if v != tags-limit {
				t.Errorf("%v tags are unlisted, want %d", v, tags-limit)
			}
		}
	}
	if perTag != 4*limit {
		t.Errorf("%d series have a tag, want 4 for each of %d tags", perTag, limit)
	}
}

// TestHistogramBounds: a bucket includes its upper bound, as in Prometheus.
func TestHistogramBounds(t *testing.T) {
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, 1: 0, 1024: 0, 1025: 1, 2048: 1, 2049: 2,
		1 << 35: 25, 1<<35 + 1: 26, time.Hour: 26,
	} {
		var h histogram
		h.observe(d)
		for i := range h.buckets {
			if got := h.buckets[i].Load(); (got == 1) != (i == want) {
				t.Errorf("%d ns: bucket %d has %d, want 1 in bucket %d alone", d, i, got, want)
			}
		}
	}
}
