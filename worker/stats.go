package worker

import "github.com/idworker/idworker/internal/forecast"

// maxStatsTags bounds the tags listed in STATS, so that the reply stays well below the
// server's message limit.
const maxStatsTags = 100

// Stats is the data of the segment endpoint in a STATS reply.
type Stats struct {
	Instance string `json:"instance"`
	Store    string `json:"store"`

	Installation string `json:"installation"`
	LeftFor      string `json:"left_for,omitempty"` // which other installation answers instead

	Parked   int        `json:"parked"`              // requests that wait for a segment
	NoLoader string     `json:"no_loader,omitempty"` // that no loader answers, and what is known of that
	Grants   GrantStats `json:"grants"`              // since the start
	Loads    *LoadStats `json:"loads,omitempty"`     // of this process's loader, if it has one
	WorkerID *int64     `json:"worker_id,omitempty"` // of snowflake IDs, if one is held
	NoWorker string     `json:"no_worker,omitempty"` // why none is held
	Active   int        `json:"active_tags"`         // tags in memory
	Tags     []TagStats `json:"tags"`                // the busiest of them, at most 100

	maxTags int // how many are listed
}

// GrantStats counts what became of the grants that reached this process.
type GrantStats struct {
	Installed int64 `json:"installed"`
	Burnt     int64 `json:"burnt"`   // late, doubled, or no room
	Below     int64 `json:"below"`   // burnt, and proof that the store went back
	Refused   int64 `json:"refused"` // the store said no
}

// LoadStats counts the loader's calls of the store.
type LoadStats struct {
	Writes   int64 `json:"writes"`
	Failures int64 `json:"failures"`
	Burnt    int64 `json:"burnt"` // ranges that the store discarded
}

// TagStats is how one tag is doing.
type TagStats struct {
	Tag    string  `json:"tag"`
	Order  string  `json:"order"` // trend or strict
	Step   int64   `json:"step"`
	Left   int64   `json:"left"`           // IDs in memory
	Rate   float64 `json:"rate"`           // IDs per second
	Runway float64 `json:"runway_seconds"` // how long Left lasts at Rate; a year at most
	Parked int     `json:"parked"`

	Use forecast.Use `json:"use,omitzero"` // of the tag's numbers, by all workers
}

// stats collects the figures of the process for STATS.
func (w *Process) stats() Stats { return w.statsOf(maxStatsTags) }

// statsOf collects the figures of the process, with the busiest tags up to a number.
func (w *Process) statsOf(tags int) Stats {
	s := Stats{Instance: w.info.instance, Store: w.info.cfg.StoreName, Tags: []TagStats{}, maxTags: tags} // not null
	for _, h := range w.halves {
		h.fillStats(&s)
	}
	return s
}
