// Package status shows the state of a whole installation: on a page for
// browsers, as text on a terminal, and as JSON. All three show one [Installation].
//
// A [Collector] collects it: from the reports of workers and loaders
// ($SRV.STATS), the buckets of worker IDs, templates and enrichments, and the
// checks of package doctor (collect.go). Rules turn it into troubles, the worst
// first (judge.go). A [View] has the tags that one viewer wants to see, as text
// (text.go) or on the [Page] (page.go), which collects at most every two seconds
// for all its viewers.
//
// Silence proves nothing. A question that fails hides nothing of the others: it
// is in [Installation.Unread], with the reason. A worker that has a lease and does
// not report is listed as silent. A process that lost its NATS server shows itself.
package status

import (
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// Installation is the state of an installation at some moment. Its JSON is that
// of idworker status --json.
type Installation struct {
	Taken  time.Time `json:"taken"`
	ID     string    `json:"installation,omitempty"`
	Prefix string    `json:"prefix"`
	Layout string    `json:"layout,omitempty"` // of snowflake IDs

	LayoutEnds []forecast.Date `json:"layout_ends"` // when its IDs reach 2^31 and 2^53, if ahead, and end

	Troubles []doctor.Finding `json:"troubles"` // the worst first
	Unread   []Unread         `json:"unread"`   // by name

	Processes   []worker.Report  `json:"processes"` // those that reported, without their tags
	Silent      []Silent         `json:"silent"`    // holders of worker IDs that did not report
	Totals      Totals           `json:"totals"`
	Tags        []Tag            `json:"tags"`      // the busiest first
	Templates   templates.List   `json:"templates"` // rules for tags that are made when they are first asked for
	WorkerIDs   []WorkerID       `json:"worker_ids"`
	Enrichments []Enrichment     `json:"enrichments"`
	Checks      []doctor.Finding `json:"checks"` // the findings of doctor

	foreign int // processes of other installations that answer on the same subjects
}

// Unread is a part that is not known.
type Unread struct {
	What   string `json:"what"`
	Why    string `json:"why"`
	Denied bool   `json:"denied,omitempty"` // no trouble: the NATS user lacks a right for it
}

// Silent is a process that holds a worker ID and did not report: it died not long
// ago, or is paused or cut off.
type Silent struct {
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Heard    time.Time `json:"heard,omitzero"` // its last heartbeat
}

// Totals are numbers of the whole installation.
type Totals struct {
	Workers         int     `json:"workers"`          // that reported
	WorkersExpected int     `json:"workers_expected"` // with the silent ones
	Loaders         int     `json:"loaders"`          // that reported
	TagsActive      int     `json:"tags_active"`      // in the memory of workers, or at least so many
	TagsUnlisted    int     `json:"tags_unlisted"`    // in the memory of a worker, and not among its busiest
	Rate            float64 `json:"rate"`             // IDs per second, of the tags that are listed
}

// Tag is the state of a tag, at all workers together.
type Tag struct {
	Name    string  `json:"tag"`
	Order   string  `json:"order"`
	Workers int     `json:"workers"`        // that reported it
	Step    int64   `json:"step"`           // the largest of a worker
	Left    int64   `json:"left"`           // IDs in memory, of all workers
	Room    int64   `json:"room"`           // two segments at each worker
	Rate    float64 `json:"rate"`           // IDs per second, of all workers
	Runway  float64 `json:"runway_seconds"` // of the worker whose memory ends first; a year at most
	Parked  int     `json:"parked"`         // requests that wait for a segment
	Short   bool    `json:"short"`          // memory lasts for less than 5 minutes after a minute of use, or requests wait

	Forecast *Forecast `json:"forecast,omitempty"` // nil if too little was measured

	use   forecast.Use
	Level doctor.Severity `json:"-"` // of its trouble; empty if it has none
}

// Forecast is when a tag's numbers run out, if they are used up as they were.
type Forecast struct {
	forecast.Use
	RunsOut []forecast.Date `json:"runs_out"` // the first one first
}

// WorkerID is the state of a worker ID that is held, or was.
type WorkerID struct {
	Datacenter int64     `json:"datacenter"`
	Worker     int64     `json:"worker"`
	Instance   string    `json:"instance,omitempty"` // of the holder; empty if there is none
	Host       string    `json:"host,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	AheadMS    int64     `json:"ahead_ms"` // of the server's clock
	Reserved   time.Time `json:"reserved_until,omitzero"`

	heard time.Time // the last heartbeat
}

// Enrichment is the state of an enrichment.
type Enrichment struct {
	Source   string    `json:"source"`
	Target   string    `json:"target"`
	To       string    `json:"to"`
	IDs      string    `json:"ids"`
	Enricher string    `json:"enricher,omitempty"` // whose turn it is, or was last
	Done     uint64    `json:"done"`               // all events of the source through this one are enriched
	Written  time.Time `json:"written"`            // by an enricher, each second
	Stalled  bool      `json:"stalled"`            // Written is so old that no enricher is at work
	Lag      *uint64   `json:"lag,omitempty"`      // events that wait, if that is known
	Oldest   time.Time `json:"oldest,omitzero"`    // when the source stored the first of them
}

// Knows reports whether a part was read.
func (i *Installation) Knows(part string) bool {
	return !slices.ContainsFunc(i.Unread, func(u Unread) bool { return u.What == part || u.What == everything })
}

// Held are the worker IDs that have a holder.
func (i *Installation) Held() (held []WorkerID) {
	for _, id := range i.WorkerIDs {
		if id.Instance != "" {
			held = append(held, id)
		}
	}
	return held
}

// Answered is how many processes reported, of those that were expected to.
func (i *Installation) Answered(n, expected int) string {
	switch {
	case !i.Knows(reportsPart):
		return "–"
	case expected > n:
		return format.Count(n) + " of " + format.Count(expected)
	}
	return format.Count(n)
}

// Age is the time since t for people.
func (i *Installation) Age(t time.Time) string {
	return format.Duration(max(i.Taken.Sub(t).Seconds(), 0))
}

// Until is the time until t for people.
func (i *Installation) Until(t time.Time) string {
	return format.Duration(max(t.Sub(i.Taken).Seconds(), 0))
}

// Waiting is the number of events that wait, for people.
func (e Enrichment) Waiting() string {
	if e.Lag == nil {
		return "not known"
	}
	return format.Count(*e.Lag)
}

// Strict reports whether the tag is strict, so that workers keep none of its IDs.
func (t Tag) Strict() bool { return t.Order == string(store.Strict) }

// Full is how full the tag's memory is, from 0 to 100 %.
func (t Tag) Full() float64 { return min(max(100*float64(t.Left)/float64(max(t.Room, 1)), 0), 100) }

// First is the limit that is reached first.
func (f *Forecast) First() string {
	if f == nil {
		return "-"
	}
	return f.RunsOut[0].String()
}

// Sort is an order of tags.
type Sort string

// The orders.
const (
	ByRate   Sort = "rate"   // the busiest first
	ByRunway Sort = "runway" // those first whose memory ends first
	ByName   Sort = "name"
)

var sorts = map[Sort]func(a, b Tag) int{ByRate: byRate, ByRunway: byRunway, ByName: byName}

// View is an installation with the tags that one viewer wants to see.
type View struct {
	*Installation
	Search  string // a part of the names of tags, in any case
	Sort    Sort
	Matches int   // tags that match the search
	Shown   []Tag // the first of them
}

// View returns the first n tags whose names contain search.
func (i *Installation) View(search string, by Sort, n int) View {
	tags := slices.Clone(i.Tags)
	lower := strings.ToLower(search)
	tags = slices.DeleteFunc(tags, func(t Tag) bool { return !strings.Contains(strings.ToLower(t.Name), lower) })
	slices.SortFunc(tags, sorts[by])
	return View{Installation: i, Search: search, Sort: by, Matches: len(tags), Shown: tags[:min(n, len(tags))]}
}

// More is the number of tags that match the search and are not shown.
func (v View) More() int { return v.Matches - len(v.Shown) }
