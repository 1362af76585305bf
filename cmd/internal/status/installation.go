package status

import (
	"time"

	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/worker"
)

// Installation is how an installation was at some moment. Its JSON is that of idworker status --json.
type Installation struct {
	Taken  time.Time `json:"taken"`
	ID     string    `json:"installation,omitempty"`
	Prefix string    `json:"prefix"`
	Layout string    `json:"layout,omitempty"` // of snowflake IDs

	LayoutEnds []forecast.Date `json:"layout_ends"` // when its IDs reach 2^31 and 2^53, if that is ahead, and when they end

	Troubles []Trouble `json:"troubles"` // the worst first
	Unread   []Unread  `json:"unread"`   // what is not known, and why

	Processes   []worker.Report `json:"processes"` // those that reported, without their tags
	Silent      []Silent        `json:"silent"`    // those that ought to have, or did before
	Totals      Totals          `json:"totals"`
	Tags        []Tag           `json:"tags"`      // the busiest first
	Templates   []Template      `json:"templates"` // rules for tags that are made when they are first asked for
	WorkerIDs   []WorkerID      `json:"worker_ids"`
	Enrichments []Enrichment    `json:"enrichments"`
	Checks      []Check         `json:"checks"` // what doctor found

	sorted sorted
}

// Severity is how bad something is.
type Severity string

// The severities. Something wrong is an error if requests fail because of it, or will soon.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Trouble is something that a person should look at.
type Trouble struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"` // of which process, tag or enrichment, or of what else
	Text     string   `json:"text"`
}

// Unread is something that is not known.
type Unread struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Silent is a process that did not report. If it holds a worker ID it ought to: it has died
// not long ago, or is paused or cut off.
type Silent struct {
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Heard    time.Time `json:"heard,omitzero"` // when it reported or sent a heartbeat last, if that is known
	Left     bool      `json:"left"`           // it held no worker ID, as loaders do, and may have stopped on purpose
}

// Totals are numbers of the whole installation, as far as it is known.
type Totals struct {
	Workers         int     `json:"workers"`          // that reported
	WorkersExpected int     `json:"workers_expected"` // the silent ones included
	Loaders         int     `json:"loaders"`          // that reported
	TagsActive      int     `json:"tags_active"`      // in the memory of workers, or at least so many
	TagsUnlisted    int     `json:"tags_unlisted"`    // of which a worker did not tell, having busier ones
	Rate            float64 `json:"rate"`             // IDs per second, of the tags that are listed
}

// Tag is how a tag is doing, at all workers together.
type Tag struct {
	Name    string  `json:"tag"`
	Order   string  `json:"order"`
	Workers int     `json:"workers"`        // that told of it
	Step    int64   `json:"step"`           // the largest of a worker
	Left    int64   `json:"left"`           // IDs in memory, of all workers
	Room    int64   `json:"room"`           // two segments at each worker
	Rate    float64 `json:"rate"`           // IDs per second, of all workers
	Runway  float64 `json:"runway_seconds"` // of the worker whose memory ends first; a year at most
	Parked  int     `json:"parked"`         // requests that wait for a segment
	Short   bool    `json:"short"`          // memory has not lasted for 5 minutes for a while, or requests wait

	Forecast *Forecast `json:"forecast,omitempty"` // nil if too little was measured to say anything
	use      forecast.Use
}

// Template is a rule for tags that are made when they are first asked for.
type Template struct {
	Pattern string `json:"pattern"`
	Step    int64  `json:"step"`
	Order   string `json:"order"`
	MaxTags int64  `json:"max_tags,omitempty"` // 0 is any number
}

// WorkerID is the state of a worker ID that is held, or was.
type WorkerID struct {
	Datacenter int64     `json:"datacenter"`
	Worker     int64     `json:"worker"`
	Instance   string    `json:"instance,omitempty"` // of the holder; empty if nobody holds it
	Host       string    `json:"host,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	AheadMS    int64     `json:"ahead_ms"` // how far the holder's clock is ahead of the server's
	Reserved   time.Time `json:"reserved_until,omitzero"`
}

// Enrichment is how far an enrichment is.
type Enrichment struct {
	Source   string    `json:"source"`
	Target   string    `json:"target"`
	To       string    `json:"to"`
	IDs      string    `json:"ids"`
	Enricher string    `json:"enricher,omitempty"` // whose turn it is, or was last
	Done     uint64    `json:"done"`               // all events of the source through this one are enriched
	Written  time.Time `json:"written"`            // by an enricher; one at work writes every second
	Stalled  bool      `json:"stalled"`            // nobody has written for so long that none is at work
	Lag      *uint64   `json:"lag,omitempty"`      // events that wait, if that is known
	Oldest   time.Time `json:"oldest,omitzero"`    // when the source stored the first of them
}

// Check is a finding of doctor.
type Check struct {
	What     string   `json:"what"`
	Severity Severity `json:"severity,omitempty"` // empty if all is well
	Text     string   `json:"text"`
}
