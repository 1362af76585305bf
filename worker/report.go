package worker

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker/internal/loader"
	"github.com/idworker/idworker/worker/internal/supply"
	"github.com/idworker/idworker/worker/loadmsg"
)

// Report has the figures of a process, as [AskReports] returns them. It is for
// people and tools. Processes use only Serving, while they stand by.
type Report struct {
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Role     Role      `json:"role"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"` // by the process's clock
	Time     time.Time `json:"time"`    // of the report, by the same clock
	// False while it starts, or stands by for another installation.
	Serving bool `json:"serving"`
	// Layout and datacenter of the snowflake IDs that the process issues.
	Layout     string `json:"layout,omitempty"`
	Datacenter *int64 `json:"datacenter,omitempty"`

	// Why it does not do all of its work.
	NotReady string `json:"not_ready,omitempty"`
	// A problem of a process that is ready.
	Degraded string `json:"degraded,omitempty"`

	Overloads *OverloadStats `json:"overloads,omitempty"` // of a worker
	Clock     *ClockStats    `json:"clock,omitempty"`     // of a worker
	// Why a loader grants nothing after the register regressed.
	Stopped string `json:"stopped,omitempty"`
	// The number of IDs by which the latest raise of all tags was too small, if
	// it was.
	RaiseBy int64 `json:"raise_by,omitempty"`
	// The lowest first ID of new tags that a loader has adopted.
	Floor int64 `json:"floor,omitempty"`
	// The witness of a loader; nil from version 0.2.0.
	Witness *WitnessStats `json:"witness,omitempty"`
	// Claims about the register, which loaders check before they grant; nil from
	// version 0.2.0.
	Claims []store.Claim `json:"claims,omitempty"`
	// The lowest first ID of new tags under the latest decision that a worker has
	// learned: it holds nothing that was granted before. 0 from version 0.2.0, which
	// does not learn.
	BufferFloor int64 `json:"buffer_floor,omitempty"`
	// Failures of a loader's store.
	Outages *OutageStats `json:"outages,omitempty"`
	// The database server of a loader's store that answered lately, as it calls
	// itself.
	Database string `json:"database,omitempty"`
	// Tags of a loader whose numbers end, and the limit of all tags if it is
	// below 2^63 - 1.
	Endings *EndingStats `json:"endings,omitempty"`
	Limit   int64        `json:"limit,omitempty"`
	// Tags that a loader cannot grant although its store works.
	Failures *FailureStats `json:"failures,omitempty"`
	// Evidence of another program that moves the rows of a loader's table; nil
	// from version 0.2.0, and without a table.
	Moves *store.Moves `json:"moves,omitempty"`
	// The largest message that its NATS server accepts, in bytes.
	MaxPayload int64 `json:"max_payload,omitempty"`
	// Answered since the start, by reply code or ok.
	Requests map[string]int64 `json:"requests,omitempty"`

	Stats Stats `json:"stats"`
}

// setDatacenter sets the layout and datacenter, unless they are unknown.
func (r *Report) setDatacenter(p ProcessIdentity) {
	r.Layout, r.Datacenter = "", nil
	if !p.Layout.IsZero() {
		r.Layout, r.Datacenter = p.Layout.String(), &p.Datacenter
	}
}

// ConflictsWith reports whether the process and one of another installation
// must not serve on the same subjects.
func (r *Report) ConflictsWith(other *Report) bool {
	return r.identity().conflict(other.identity()) != noConflict
}

// identity returns what a conflict depends on.
func (r *Report) identity() ProcessIdentity {
	p := ProcessIdentity{Role: r.Role}
	if r.Datacenter != nil {
		p.Layout, p.Datacenter = decodeDatacenter(r.Layout, strconv.FormatInt(*r.Datacenter, 10))
	}
	return p
}

// Answers reports whether the process answers requests.
func (r *Report) Answers() bool { return r.Role.Answers() }

// AnswersSegments reports whether the process answers requests for IDs of tags.
func (r *Report) AnswersSegments() bool { return r.Role.AnswersSegments() }

// Loads reports whether the process reserves segments.
func (r *Report) Loads() bool { return r.Role.Loads() }

// OverloadStats counts how many times a worker left the queue groups because
// requests queued too long, and reports whether it is out of them now.
type OverloadStats struct {
	Now   bool  `json:"now"`
	Times int64 `json:"times"`
}

// ClockStats is about a worker's clock, and the time of its worker ID.
type ClockStats struct {
	AheadMS int64 `json:"ahead_ms"` // of the NATS server's
	// Time reserved beyond the clock; 0 without a worker ID.
	ReservedIn float64 `json:"reserved_seconds"`
	// Since the latest heartbeat that succeeded, 0 if one did within the TTL; nil
	// from version 0.2.0, whose fences are never longer than that.
	Unconfirmed *float64 `json:"unconfirmed_seconds,omitempty"`
}

// WitnessStats is about the file in which a loader keeps evidence of the
// register for its next start.
type WitnessStats struct {
	Path    string `json:"path,omitempty"`    // empty if there is none
	Problem string `json:"problem,omitempty"` // why it counts as none
}

// Stats is the data in the STATS of the services that get requests.
type Stats struct {
	Instance string `json:"instance"`
	Store    string `json:"store"`

	Installation string `json:"installation"`
	// The other installation that answers instead.
	LeftFor string `json:"left_for,omitempty"`

	SupplyFigures
	// Calls of this process's loader; nil without a loader.
	Loads *LoadStats `json:"loads,omitempty"`
	// Held for snowflake IDs; nil if none is.
	WorkerID *int64 `json:"worker_id,omitempty"`
	NoWorker string `json:"no_worker,omitempty"` // why none is held
}

// SupplyFigures are a worker's figures about its tags and grants. A loader's are zero.
type SupplyFigures = supply.Figures

// GrantStats counts the outcomes of grants that reached a process.
type GrantStats = supply.GrantStats

// TagStats has the figures of a tag.
type TagStats = supply.TagStats

// LoadStats counts a loader's calls of the store.
type LoadStats = loader.Calls

// OutageStats is about the failures of a loader's store.
type OutageStats = loader.Outage

// EndingStats has the tags whose numbers end, at most MaxNamed of a kind by
// name.
type EndingStats = loader.Endings

// FailureStats has the tags that cannot be granted, at most MaxNamed by name.
type FailureStats = loader.Failures

// TagFailure is a tag with the error of its latest load.
type TagFailure = loader.TagFailure

// MaxNamed bounds the names in EndingStats and FailureStats.
const MaxNamed = loader.MaxNamed

// Report returns the process's report, with at most so many of the busiest
// tags, 0 to 500.
func (p *Process) Report(tags int) Report {
	r := Report{
		Instance: p.self.Instance, Host: p.self.Host, Role: p.self.Role, Version: p.cfg.Version, Started: p.started, Time: time.Now(),
		Serving: p.watch.serving.Load(), MaxPayload: p.cfg.Control.MaxPayload(),
		// Tags must not be null.
		Stats: Stats{Instance: p.self.Instance, Installation: p.self.Installation, Store: p.cfg.StoreName, SupplyFigures: SupplyFigures{Tags: []TagStats{}}},
	}
	r.setDatacenter(p.self)
	if left := p.watch.left.Load(); left != nil {
		r.Stats.LeftFor = left.Error()
	}
	if p.loader != nil {
		f := p.loader.Figures()
		r.Stats.Loads, r.Outages = &f.Calls, &f.Outage
		r.Database, r.Moves, r.Witness = f.Server, f.Moves, p.cfg.Witness
		if f.Limit < math.MaxInt64 {
			r.Limit = f.Limit
		}
		if f.Endings.Exhausted+f.Endings.Soon > 0 {
			r.Endings = &f.Endings
		}
		if f.Failures.Tags > 0 {
			r.Failures = &f.Failures
		}
		r.Floor = p.cfg.Store.Lowest()
		if err := p.cfg.Store.Stopped(); err != nil {
			r.Stopped = err.Error()
			if wrong := new(store.RegressionError); errors.As(err, &wrong) {
				r.RaiseBy = wrong.Short
			}
		}
	}
	if p.groups != nil {
		overload := p.groups.overload()
		r.Overloads, r.Requests = &overload, p.answers.Requests()
		p.groups.workerID.report(&r)
	}
	r.Claims = p.claims()
	if p.supply != nil {
		r.Stats.SupplyFigures = p.supply.Figures(min(max(tags, 0), MaxReportTags))
		r.BufferFloor = p.supply.Floor()
	}
	if err := p.Ready(); err != nil {
		r.NotReady = err.Error()
	} else if err := p.Degraded(); err != nil {
		r.Degraded = err.Error()
	}
	return r
}

// fit removes the least busy tags of a report that the NATS server would refuse
// as too large. Otherwise no answer would arrive.
func (r *Report) fit() {
	room := r.MaxPayload - answerRoom
	for i, tag := range r.Stats.Tags {
		text, _ := json.Marshal(tag)
		if room -= int64(len(text)) + 1; room < 0 { // with the comma
			r.Stats.Cut = len(r.Stats.Tags) - i
			r.Stats.Tags = r.Stats.Tags[:i]
			return
		}
	}
}

// answerRoom is more bytes than everything in an answer but the tags.
const answerRoom = 24 << 10

// maxReportMoves bounds the moves of a kind in a report.
const maxReportMoves = 32

// maxOutcomes bounds the outcomes of requests in a report.
const maxOutcomes = 20

// shorten bounds the texts of a report, and removes invalid tags and numbers.
func (r *Report) shorten() {
	texts := []*string{
		&r.Host, &r.Version, &r.NotReady, &r.Degraded, &r.Stopped, &r.Database,
		&r.Stats.Store, &r.Stats.Installation, &r.Stats.LeftFor, &r.Stats.NoLoader, &r.Stats.NoWorker,
	}
	if r.Outages != nil {
		texts = append(texts, &r.Outages.Error)
	}
	if r.Witness != nil {
		texts = append(texts, &r.Witness.Path, &r.Witness.Problem)
	}
	for _, text := range texts {
		*text = cut(*text)
	}
	if e := r.Endings; e != nil {
		e.Exhausted, e.Soon = max(e.Exhausted, 0), max(e.Soon, 0)
		for _, tags := range []*[]string{&e.ExhaustedTags, &e.SoonTags} {
			*tags = slices.DeleteFunc(*tags, func(tag string) bool { return messages.CheckTag(tag) != nil })
			*tags = (*tags)[:min(len(*tags), MaxNamed)]
		}
	}
	if f := r.Failures; f != nil {
		f.Tags = max(f.Tags, 0)
		f.Named = slices.DeleteFunc(f.Named, func(tag loader.TagFailure) bool { return messages.CheckTag(tag.Tag) != nil })
		f.Named = f.Named[:min(len(f.Named), MaxNamed)]
		for i := range f.Named {
			f.Named[i].Error = cut(f.Named[i].Error)
		}
	}
	if m := r.Moves; m != nil {
		for _, moves := range []*[]store.Move{&m.Skipped, &m.Discarded} {
			*moves = slices.DeleteFunc(*moves, func(m store.Move) bool { return messages.CheckTag(m.Tag) != nil })
			*moves = (*moves)[:min(len(*moves), maxReportMoves)]
		}
	}
	r.Limit, r.MaxPayload, r.Stats.Cut = max(r.Limit, 0), max(r.MaxPayload, 0), max(r.Stats.Cut, 0)
	r.Floor, r.RaiseBy, r.Stats.Highest = max(r.Floor, 0), max(r.RaiseBy, 0), max(r.Stats.Highest, 0)
	r.BufferFloor = max(r.BufferFloor, 0)
	r.Claims = loadmsg.PossibleClaims(r.Instance, r.Claims)
	if len(r.Requests) > maxOutcomes {
		r.Requests = nil
	}
	r.Stats.Tags = slices.DeleteFunc(r.Stats.Tags, func(t TagStats) bool { return messages.CheckTag(t.Tag) != nil })
	r.Stats.Tags = r.Stats.Tags[:min(len(r.Stats.Tags), MaxReportTags)]
}

// Metrics collects the metrics of the process. At most maxTags tags, the
// busiest, have their own metrics. The metrics of all tags include the rest.
func (p *Process) Metrics(maxTags int) prometheus.Collector { return metrics{p, maxTags} }

// DefaultMetricsTags is the default number of tags with their own metrics.
const DefaultMetricsTags = 1000

type metrics struct {
	process *Process
	maxTags int
}

// Describe is part of prometheus.Collector. It is empty because the metrics
// depend on the role.
func (m metrics) Describe(chan<- *prometheus.Desc) {}

var (
	natsConnected  = metric.Declare("nats_connected", "1 if the connection is up, else 0.", "connection")
	natsReconnects = metric.Declare("nats_reconnects_total", "Reconnects to NATS.", "connection")
)

// Collect is part of prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	p, to := m.process, metric.Sink{To: ch, MaxTags: m.maxTags}
	to.BoolGauge(natsConnected, p.cfg.Requests.IsConnected(), "requests")
	to.Counter(natsReconnects, int64(p.cfg.Requests.Stats().Reconnects), "requests")
	to.BoolGauge(natsConnected, p.cfg.Control.IsConnected(), "control")
	to.Counter(natsReconnects, int64(p.cfg.Control.Stats().Reconnects), "control")
	p.foreign.Collect(to)
	p.watch.collect(to)
	if p.loader != nil {
		p.loader.Collect(to)
	}
	if p.supply != nil {
		p.supply.Collect(to)
	}
	if p.groups != nil {
		p.answers.Collect(to)
		p.groups.collect(to)
	}
}
