package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/forecast"
)

// Installation is the state of an installation at a moment. Its JSON is that of
// idworker status --json.
type Installation struct {
	Taken  time.Time `json:"taken"`
	ID     string    `json:"installation,omitempty"`
	Prefix string    `json:"prefix"`
	Layout string    `json:"layout,omitempty"` // of snowflake IDs

	// When IDs reach 2^31 and 2^53, if that is ahead, and when they end.
	LayoutEnds []forecast.Date `json:"layout_ends"`

	// Nil if none was declared, and if no worker ID waits.
	Outage *DeclaredOutage `json:"outage,omitempty"`
	Waits  *Waits          `json:"worker_ids_wait,omitempty"`

	Troubles []Diagnosis `json:"troubles"` // the worst first
	Unread   []Unread    `json:"unread"`   // by name

	// The processes that reported, without their tags.
	Processes []worker.Report `json:"processes"`
	// Holders of worker IDs that did not report.
	Silent      []Silent          `json:"silent"`
	Totals      Totals            `json:"totals"`
	Tags        []TagState        `json:"tags"` // the busiest first
	Templates   templates.List    `json:"templates"`
	WorkerIDs   []WorkerID        `json:"worker_ids"`
	Enrichments []EnrichmentState `json:"enrichments"`
	Checks      []Diagnosis       `json:"checks"` // of doctor

	// Other installations on the same subjects, by ID.
	Others []Other `json:"others"`

	found   []Diagnosis        // by judge, also of what is well
	explain func(error) string // returns the text of an error; may be nil
	maxSkew time.Duration      // of clocks; 0: any
	payload int64              // the largest message on the connection, in bytes; 0 if unknown
	partial bool               // only enrichments and checks of a role

	layout    snowflake.Layout // installed
	embedded  bool             // the NATS server is a worker's own
	outageErr error            // of reading the outage
	lostClock *lease.ClockLostError
}

// Other is the processes of another installation with one datacenter.
type Other struct {
	ID         string `json:"installation"`
	Datacenter *int64 `json:"datacenter,omitempty"` // missing for loaders
	Processes  int    `json:"processes"`
	// With a process of this installation.
	Conflict bool `json:"conflict"`
}

// String describes the processes.
func (o Other) String() string {
	text := "1 process of another installation"
	if o.Processes > 1 {
		text = fmt.Sprintf("%d processes of another installation", o.Processes)
	}
	if o.Datacenter != nil {
		text += fmt.Sprintf(", datacenter %d", *o.Datacenter)
	}
	return text
}

// Unread is an unknown part.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// The NATS user lacks a right; not a problem.
	Denied bool `json:"denied,omitempty"`
}

// Silent is a process that holds a worker ID and did not report: it died
// lately, or is paused or disconnected.
type Silent struct {
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Heard    time.Time `json:"heard,omitzero"` // its last heartbeat
}

// Totals are figures of the whole installation.
type Totals struct {
	Workers         int `json:"workers"`          // that reported
	WorkersExpected int `json:"workers_expected"` // and the silent ones
	Loaders         int `json:"loaders"`          // that reported
	// Buffered by workers; there may be more.
	TagsActive int `json:"tags_active"`
	// Buffered by a worker, but not among its busiest.
	TagsUnlisted int `json:"tags_unlisted"`
	// Unlisted because an answer was too large for a NATS server.
	TagsCut int `json:"tags_cut"`
	// IDs per second of the listed tags.
	Rate float64 `json:"rate"`
}

// TagState is the state of a tag at all workers together.
type TagState struct {
	Name    string  `json:"tag"`
	Order   string  `json:"order"`
	Workers int     `json:"workers"` // that reported it
	Step    int64   `json:"step"`    // the largest of all workers
	Left    int64   `json:"left"`    // buffered IDs, of all workers
	Room    int64   `json:"room"`    // two segments per worker
	Rate    float64 `json:"rate"`    // IDs per second, of all workers
	// Runway of the worker that runs out first; a year at most.
	Runway float64 `json:"runway_seconds"`
	Parked int     `json:"parked"` // requests
	// Buffers last less than 5 minutes after five minutes of use, or requests
	// are parked.
	Short bool `json:"short"`

	Forecast *Forecast `json:"forecast,omitempty"` // nil without enough data

	use   forecast.Use
	Level Severity `json:"-"` // of its problem, if any
}

// Forecast is when a tag's numbers run out at the measured rate.
type Forecast struct {
	forecast.Use
	RunsOut []forecast.Date `json:"runs_out"` // the first limit first
}

// WorkerID is the state of a worker ID that is or was held.
type WorkerID struct {
	Datacenter int64     `json:"datacenter"`
	Worker     int64     `json:"worker"`
	Instance   string    `json:"instance,omitempty"` // of the holder, if any
	Host       string    `json:"host,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	AheadMS    int64     `json:"ahead_ms"` // of the server's clock
	Reserved   time.Time `json:"reserved_until,omitzero"`

	heard time.Time // the last heartbeat
}

// EnrichmentState is the state of an enrichment.
type EnrichmentState struct {
	Source string `json:"source"`
	Target string `json:"target"`
	To     string `json:"to"`
	IDs    string `json:"ids"`
	// The process whose turn it is, or was last.
	Enricher string `json:"enricher,omitempty"`
	// All events of the source through this sequence are enriched.
	Done uint64 `json:"done"`
	// Each second, by an enricher.
	Written time.Time `json:"written"`
	// Written is so old that no enricher works.
	Stalled bool `json:"stalled"`
	// Why the enrichment has stopped.
	Failing string `json:"failing,omitempty"`
	// Waiting events; nil if unknown.
	Lag *uint64 `json:"lag,omitempty"`
	// When the source stored the first of them.
	Oldest time.Time `json:"oldest,omitzero"`

	checked bool  // its target was
	target  error // that it found
}

// Databases returns the stores of loaders, with the servers that they reach.
func (i *Installation) Databases() (all []string) {
	for _, r := range i.Processes {
		if r.Database != "" {
			all = append(all, r.Stats.Store+" at "+r.Database)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Diagnoses returns the checks and all judgements, also of what is well.
func (i *Installation) Diagnoses() []Diagnosis { return slices.Concat(i.Checks, i.found) }

// Known reports whether a part was read.
func (i *Installation) Known(part string) bool {
	return !slices.ContainsFunc(i.Unread, func(u Unread) bool { return u.What == part || u.What == everything })
}

// Held returns the worker IDs that have a holder.
func (i *Installation) Held() (held []WorkerID) {
	for _, id := range i.WorkerIDs {
		if id.Instance != "" {
			held = append(held, id)
		}
	}
	return held
}

// Answered formats the number of processes that reported, of those expected.
func (i *Installation) Answered(n, expected int) string {
	switch {
	case !i.Known(reportsPart):
		return "–"
	case expected > n:
		return format.Count(n) + " of " + format.Count(expected)
	}
	return format.Count(n)
}

// Age formats the time since t.
func (i *Installation) Age(t time.Time) string {
	return format.Duration(max(i.Taken.Sub(t).Seconds(), 0))
}

// Until formats the time until t.
func (i *Installation) Until(t time.Time) string {
	return format.Duration(max(t.Sub(i.Taken).Seconds(), 0))
}

// Waiting formats the number of waiting events.
func (e EnrichmentState) Waiting() string {
	if e.Lag == nil {
		return "unknown"
	}
	return format.Count(*e.Lag)
}

// Strict reports whether the tag is strict, so that workers buffer none of its
// IDs.
func (t TagState) Strict() bool { return t.Order == string(store.Strict) }

// Full is the fill of the tag's buffers, from 0 to 100 %.
func (t TagState) Full() float64 {
	return min(max(100*float64(t.Left)/float64(max(t.Room, 1)), 0), 100)
}

// First formats the first limit.
func (f *Forecast) First() string {
	if f == nil {
		return "-"
	}
	return f.RunsOut[0].String()
}

// Sort is an order of tags.
type Sort string

// Orders of tags.
const (
	ByRate   Sort = "rate"   // the busiest first
	ByRunway Sort = "runway" // buffers that run out soonest first
	ByName   Sort = "name"
)

var sorts = map[Sort]func(a, b TagState) int{ByRate: byRate, ByRunway: byRunway, ByName: byName}

// Unlisted describes the tags that no worker reported; empty if there are none.
func (t Totals) Unlisted() string {
	if t.TagsUnlisted <= 0 {
		return ""
	}
	text := "Workers report only their busiest tags; not shown: up to " + format.Of(t.TagsUnlisted, "other")
	if t.TagsCut > 0 {
		text += ", " + format.Count(t.TagsCut) + " of them because of a small max_payload"
	}
	return text + "."
}

// View is an installation with the tags for a viewer.
type View struct {
	*Installation
	Search  string // a part of names, in any case
	Sort    Sort
	Matches int        // tags that match
	Shown   []TagState // the first of them
}

// View returns the first n tags whose names contain search.
func (i *Installation) View(search string, by Sort, n int) View {
	tags := slices.Clone(i.Tags)
	lower := strings.ToLower(search)
	tags = slices.DeleteFunc(tags, func(t TagState) bool { return !strings.Contains(strings.ToLower(t.Name), lower) })
	slices.SortFunc(tags, sorts[by])
	return View{Installation: i, Search: search, Sort: by, Matches: len(tags), Shown: tags[:min(n, len(tags))]}
}

// More is the number of matching tags that are not shown.
func (v View) More() int { return v.Matches - len(v.Shown) }
