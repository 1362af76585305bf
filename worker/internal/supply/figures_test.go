package supply

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/store"
)

// collector collects a supply's metrics.
type collector struct {
	s       *Supply
	maxTags int
}

func (c collector) Describe(chan<- *prometheus.Desc) {}
func (c collector) Collect(to chan<- prometheus.Metric) {
	c.s.Collect(metric.Sink{To: to, MaxTags: c.maxTags})
}

// TestBusiestTags: with 5,000 tags in use, only the busiest have their own
// figures and metrics. The metrics of all tags include the rest.
func TestBusiestTags(t *testing.T) {
	const tags, limit = 5_000, 500
	synctest.Test(t, func(t *testing.T) {
		s := New(config(&nats.Conn{}))
		names := make([]string, tags)
		for i := range names {
			names[i] = fmt.Sprintf("tag-%06d", i)
			if _, err := s.alloc.TakeOrPark(allocator.Request{Tag: names[i], N: 100}); err != nil {
				t.Fatal(err)
			}
			l, _ := s.alloc.Send()
			s.alloc.Answer(names[i], l.Seq, allocator.Answer{Segment: store.Segment{First: 1, End: 1001}, Step: 1000, Order: store.Trend})
			s.alloc.Replies()
		}
		time.Sleep(time.Minute)
		// The hundreds of a tag's number are its rate.
		const digit = len("tag-000")
		for _, tag := range names {
			if _, ok := s.alloc.Take(tag, 100+int64(tag[digit]-'0')); !ok {
				t.Fatalf("%s has no IDs", tag)
			}
		}
		figures := s.Figures(limit)
		if figures.Active != tags || len(figures.Tags) != limit {
			t.Errorf("figures of %d of %d tags, want %d of %d", len(figures.Tags), figures.Active, limit, tags)
		}
		for _, f := range figures.Tags {
			if f.Tag[digit] != '9' {
				t.Fatalf("%s has figures of its own, which is not among the busiest", f.Tag)
			}
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector{s, limit})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		perTag := 0
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() != "tag" {
						continue
					}
					if perTag++; l.GetValue()[digit] != '9' {
						t.Fatalf("%s has metrics of its own, which is not among the busiest", l.GetValue())
					}
				}
			}
			switch v := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() {
			case "idworker_tags":
				if v != tags {
					t.Errorf("%v tags, want %d", v, tags)
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
	})
}

// TestHighestSegment: the highest segment of all tags is reported, listed or
// not. Tags that were begun far above the time hide no other.
func TestHighestSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(config(&nats.Conn{}))
		raised := time.Now().UnixMicro() + 10_000_000_000
		for tag, first := range map[string]int64{"low": 1, "raised": raised, "old snowflake IDs": 1_700_000_000_000_000_000, "above": raised + aheadOfTime} {
			if _, err := s.alloc.TakeOrPark(allocator.Request{Tag: tag, N: 1}); err != nil {
				t.Fatal(err)
			}
			l, _ := s.alloc.Send()
			s.alloc.Answer(tag, l.Seq, allocator.Answer{Segment: store.Segment{First: first, End: first + 1000}, Step: 1000, Order: store.Trend})
			s.alloc.Replies()
		}
		if f := s.Figures(0); f.Highest != raised+1000 {
			t.Errorf("the highest segment ends at %d, want %d", f.Highest, raised+1000)
		}
	})
}

// TestFiguresAsJSON spells out the names in STATS.
func TestFiguresAsJSON(t *testing.T) {
	got, err := json.Marshal(New(config(&nats.Conn{})).Figures(100))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"parked":0,"grants":{"installed":0,"burnt":0,"below":0,"refused":0},"active_tags":0,"tags":[]}`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}
