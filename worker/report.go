package worker

import (
	"slices"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/worker/internal/load"
	"github.com/idworker/idworker/worker/internal/supply"
)

// Report has the figures of a process, as [AskReports] returns them. It is for
// people and tools; no process depends on it, except that one which stands by
// looks at Serving.
type Report struct {
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Role     Role      `json:"role"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"` // by the process's clock
	Serving  bool      `json:"serving"` // false while it starts, or stands by for another installation

	NotReady string `json:"not_ready,omitempty"` // why it does not do all of its work
	Degraded string `json:"degraded,omitempty"`  // what is wrong although it does

	Overloads *OverloadStats   `json:"overloads,omitempty"` // of a worker
	Clock     *ClockStats      `json:"clock,omitempty"`     // of a worker
	Stopped   string           `json:"stopped,omitempty"`   // why a loader grants nothing, because the register went back
	Outages   *OutageStats     `json:"outages,omitempty"`   // of a loader's store
	Requests  map[string]int64 `json:"requests,omitempty"`  // answered since the start, by the code of the reply or ok

	Stats Stats `json:"stats"`
}

// Answers reports whether the process answers requests.
func (r *Report) Answers() bool { return r.Role.Answers() }

// Loads reports whether the process reserves segments.
func (r *Report) Loads() bool { return r.Role.Loads() }

// OverloadStats is how often a worker left the queue groups because requests
// waited too long for their turn, and whether it is out of them now.
type OverloadStats struct {
	Now   bool  `json:"now"`
	Times int64 `json:"times"`
}

// ClockStats is about a worker's clock, and the time of its worker ID.
type ClockStats struct {
	AheadMS    int64   `json:"ahead_ms"`         // of the NATS server's
	ReservedIn float64 `json:"reserved_seconds"` // how far ahead of the clock time is reserved; 0 without a worker ID
}

// Stats is the data in the STATS of the services that get requests.
type Stats struct {
	Instance string `json:"instance"`
	Store    string `json:"store"`

	Installation string `json:"installation"`
	LeftFor      string `json:"left_for,omitempty"` // which other installation answers instead

	Supply
	Loads    *LoadStats `json:"loads,omitempty"`     // of this process's loader, if it has one
	WorkerID *int64     `json:"worker_id,omitempty"` // of snowflake IDs, if one is held
	NoWorker string     `json:"no_worker,omitempty"` // why none is held
}

// Supply are a worker's figures about its tags and grants. A loader's are zero.
type Supply = supply.Figures

// GrantStats counts the fates of the grants that reached a process.
type GrantStats = supply.GrantStats

// TagStats are the figures of one tag.
type TagStats = supply.TagStats

// LoadStats counts a loader's calls of the store.
type LoadStats = load.Loads

// OutageStats is about the failures of a loader's store.
type OutageStats = load.Outage

// Report is what the process reports of itself, with the busiest tags up to a
// number from 0 to 500.
func (p *Process) Report(tags int) Report {
	r := Report{
		Instance: p.self.Instance, Host: p.self.Host, Role: p.self.Role, Version: p.cfg.Version, Started: p.started,
		Serving: p.watch.serving.Load(),
		Stats:   Stats{Instance: p.self.Instance, Installation: p.self.Installation, Store: p.cfg.StoreName, Supply: Supply{Tags: []TagStats{}}}, // not null
	}
	if left := p.watch.left.Load(); left != nil {
		r.Stats.LeftFor = left.Error()
	}
	if p.loader != nil {
		f := p.loader.Figures()
		r.Stats.Loads, r.Outages = &f.Loads, &f.Outage
		if err := p.cfg.Store.Stopped(); err != nil {
			r.Stopped = err.Error()
		}
	}
	if p.groups != nil {
		p.reportAnswers(&r, min(max(tags, 0), MaxReportTags))
	}
	if err := p.Ready(); err != nil {
		r.NotReady = err.Error()
	} else if err := p.Degraded(); err != nil {
		r.Degraded = err.Error()
	}
	return r
}

// reportAnswers adds the figures of a worker.
func (p *Process) reportAnswers(r *Report, tags int) {
	overload := p.groups.overload()
	r.Overloads = &overload
	r.Clock = p.groups.workerID.clockStats()
	r.Requests = p.answers.Requests()
	p.groups.workerID.fillStats(&r.Stats)
	r.Stats.Supply = p.supply.Figures(tags)
}

// maxOutcomes bounds the outcomes of requests in a report.
const maxOutcomes = 20

// shorten bounds the texts of a report, and removes invalid tags.
func (r *Report) shorten() {
	texts := []*string{
		&r.Host, &r.Version, &r.NotReady, &r.Degraded, &r.Stopped,
		&r.Stats.Store, &r.Stats.Installation, &r.Stats.LeftFor, &r.Stats.NoLoader, &r.Stats.NoWorker,
	}
	if r.Outages != nil {
		texts = append(texts, &r.Outages.Error)
	}
	for _, text := range texts {
		*text = cut(*text)
	}
	if len(r.Requests) > maxOutcomes {
		r.Requests = nil
	}
	r.Stats.Tags = slices.DeleteFunc(r.Stats.Tags, func(t TagStats) bool { return messages.CheckTag(t.Tag) != nil })
	r.Stats.Tags = r.Stats.Tags[:min(len(r.Stats.Tags), MaxReportTags)]
}
