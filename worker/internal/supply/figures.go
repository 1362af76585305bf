package supply

import (
	"cmp"
	"slices"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/worker/forecast"
)

// Figures has a worker's figures about its tags and grants, as in STATS.
type Figures struct {
	// requests waiting for a segment
	Parked   int        `json:"parked"`
	NoLoader string     `json:"no_loader,omitempty"` // why no load is served
	Grants   GrantStats `json:"grants"`              // since the start
	Active   int        `json:"active_tags"`         // buffered tags
	Tags     []TagStats `json:"tags"`                // the busiest of them
	// The least busy of those, left out of an answer that they make too large
	// for the NATS server.
	Cut int `json:"tags_cut,omitempty"`
	// The highest end of a segment granted to a buffered tag, of those at most
	// aheadOfTime above the microseconds since 1970, where raises begin; 0 if
	// there is none.
	Highest int64 `json:"highest,omitempty"`
}

// aheadOfTime is the number of IDs, and of microseconds, by which several
// raises in succession may get ahead of the time: 28 hours. Tags above that were
// not begun by a raise, and would hide those that were.
const aheadOfTime = 100_000_000_000

// GrantStats counts the outcomes of the grants that reached this process.
type GrantStats struct {
	Installed int64 `json:"installed"`
	Burnt     int64 `json:"burnt"` // late, duplicate, or no room
	// burnt, and proof that the store regressed
	Below   int64 `json:"below"`
	Refused int64 `json:"refused"` // the store refused the load
}

// TagStats has the figures of a tag.
type TagStats struct {
	Tag   string  `json:"tag"`
	Order string  `json:"order"` // trend or strict
	Step  int64   `json:"step"`
	Left  int64   `json:"left"` // buffered IDs
	Rate  float64 `json:"rate"` // IDs per second
	// seconds that Left lasts at Rate; a year at most
	Runway float64 `json:"runway_seconds"`
	Parked int     `json:"parked"`

	// of the tag's numbers, by all workers
	Use forecast.Use `json:"use,omitzero"`

	// Since the worker holds the tag, it was granted so many IDs, and issued so
	// many.
	Granted int64 `json:"granted,omitempty"`
	Issued  int64 `json:"issued,omitempty"`
	// The configured step of a trend tag; 0 from version 0.2.0.
	Configured int64 `json:"configured,omitempty"`
}

// Figures returns the figures, with at most so many tags.
func (s *Supply) Figures(maxTags int) Figures {
	f := Figures{
		Parked: s.alloc.Parked(),
		Grants: GrantStats{
			Installed: s.counts.installed.Load(), Burnt: s.counts.burnt.Load(),
			Below: s.counts.below.Load(), Refused: s.counts.refused.Load(),
		},
		Active: s.alloc.Tags(),
		Tags:   []TagStats{}, // not null
	}
	if err := s.Unanswered(); err != nil {
		f.NoLoader = err.Error()
	}
	all, raised := s.alloc.Figures(), time.Now().UnixMicro()+aheadOfTime
	for _, t := range all {
		if t.High <= raised {
			f.Highest = max(f.Highest, t.High)
		}
	}
	for _, t := range busiest(all, maxTags) {
		f.Tags = append(f.Tags, TagStats{t.Tag, string(t.Order), t.Step, t.Left, t.Rate, t.Runway.Seconds(), t.Parked, useOf(t), t.Granted, t.Total, t.Configured})
	}
	return f
}

// useOf returns the use of a tag's numbers.
func useOf(f allocator.Figures) forecast.Use {
	return forecast.Use{High: f.High, Rate: f.Use, Seconds: f.Over.Seconds()}
}

// The metrics. docs/monitoring.md explains their use.
var (
	parkedMetric     = metric.Declare("parked_requests", "Requests waiting for a segment.")
	unansweredMetric = metric.Declare("loads_unanswered_seconds", "Seconds without an answer from loaders; 0 if none is due.")
	grantsMetric     = metric.Declare("grants_total", "Grants from loaders, by outcome.", "outcome")
	burntMetric      = metric.Declare("burnt_ids_total", "IDs granted and discarded, of strict or evicted tags.")

	tagsMetric      = metric.Declare("tags", "Buffered tags.")
	unlistedMetric  = metric.Declare("tags_unlisted", "Active tags beyond the limit of per-tag metrics.")
	runwayMetric    = metric.Declare("runway_seconds", "Shortest runway of any tag, at its current rate.")
	tagIDsMetric    = metric.Declare("tag_ids_total", "IDs issued, by tag.", "tag")
	tagFillMetric   = metric.Declare("tag_buffered_ids", "Buffered IDs, by tag.", "tag")
	tagStepMetric   = metric.Declare("tag_step_ids", "Size of the latest requested segment, by tag.", "tag")
	tagRunwayMetric = metric.Declare("tag_runway_seconds", "Runway at the current rate, at most a year, by tag.", "tag")
	tagEndMetric    = metric.Declare("tag_runs_out_timestamp_seconds", "Unix time when the tag's IDs reach 2^31, 2^53 or end.", "tag", "limit")
)

// Collect sends the metrics. The busiest tags have their own metrics; the
// metrics of all tags include the rest.
func (s *Supply) Collect(to metric.Sink) {
	to.Gauge(parkedMetric, float64(s.alloc.Parked()))
	unanswered := 0.0
	if current := s.unanswered.current.Load(); current != nil {
		unanswered = time.Since(current.Since).Seconds()
	}
	to.Gauge(unansweredMetric, unanswered)
	to.Counter(grantsMetric, s.counts.installed.Load(), "installed")
	to.Counter(grantsMetric, s.counts.burnt.Load(), "burnt")
	to.Counter(grantsMetric, s.counts.below.Load(), "below")
	to.Counter(grantsMetric, s.counts.refused.Load(), "refused")
	to.Counter(burntMetric, s.alloc.Burnt())
	s.collectTags(to)
}

func (s *Supply) collectTags(to metric.Sink) {
	all, now := s.alloc.Figures(), time.Now()
	shortest := allocator.MaxRunway
	for _, f := range all {
		shortest = min(shortest, f.Runway)
	}
	to.Gauge(tagsMetric, float64(s.alloc.Tags()))
	to.Gauge(runwayMetric, shortest.Seconds())
	listed := busiest(all, to.MaxTags)
	to.Gauge(unlistedMetric, float64(len(all)-len(listed)))
	for _, f := range listed {
		to.Counter(tagIDsMetric, f.Total, f.Tag)
		to.Gauge(tagFillMetric, float64(f.Left), f.Tag)
		to.Gauge(tagStepMetric, float64(f.Step), f.Tag)
		to.Gauge(tagRunwayMetric, f.Runway.Seconds(), f.Tag)
		for _, date := range useOf(f).Dates(now) {
			to.Gauge(tagEndMetric, float64(date.At.Unix()), f.Tag, string(date.Limit))
		}
	}
}

// busiest returns the figures of the n tags with the highest rates, highest
// first.
func busiest(all []allocator.Figures, n int) []allocator.Figures {
	var top []allocator.Figures
	// Index in top of the lowest rate that still qualifies; -1 until it is
	// found.
	bar := -1
	for _, f := range all {
		if n == 0 || bar >= 0 && compareRates(f, top[bar]) > 0 {
			continue
		}
		if top = append(top, f); len(top) == 2*n {
			slices.SortFunc(top, compareRates)
			top, bar = top[:n], n-1
		}
	}
	slices.SortFunc(top, compareRates)
	return top[:min(len(top), n)]
}

// compareRates puts higher rates first. Equal rates have a fixed order, so that
// series do not come and go.
func compareRates(a, b allocator.Figures) int {
	return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Tag, b.Tag))
}
