package worker

// maxStatsTags bounds the tags listed in STATS, so that the reply stays well below
// the server's message limit.
const maxStatsTags = 100

// Stats is the data of the segment endpoint in a STATS reply.
type Stats struct {
	Instance string     `json:"instance"`
	Store    string     `json:"store"`
	Parked   int        `json:"parked"`              // requests that wait for a segment
	Grants   GrantStats `json:"grants"`              // since the start
	Loads    *LoadStats `json:"loads,omitempty"`     // of this process's loader, if it has one
	WorkerID *int64     `json:"worker_id,omitempty"` // of snowflake IDs; none is held without
	NoWorker string     `json:"no_worker,omitempty"` // why there is none
	Active   int        `json:"active_tags"`         // tags asked for since the start
	Tags     []TagStats `json:"tags"`                // the busiest of them, at most 100
}

// GrantStats counts what became of the grants that reached this process.
type GrantStats struct {
	Installed int64 `json:"installed"`
	Burnt     int64 `json:"burnt"`   // late, doubled, or no room
	Refused   int64 `json:"refused"` // the store said no
}

// LoadStats counts the loader's calls of the store.
type LoadStats struct {
	Writes   int64 `json:"writes"`
	Failures int64 `json:"failures"`
}

// TagStats is how one tag is doing.
type TagStats struct {
	Tag    string  `json:"tag"`
	Step   int64   `json:"step"`
	Left   int64   `json:"left"`           // IDs in memory
	Rate   float64 `json:"rate"`           // IDs per second
	Runway float64 `json:"runway_seconds"` // how long Left lasts at Rate; a year at most
	Parked int     `json:"parked"`
}

// stats collects the figures of the process.
func (w *Worker) stats() Stats {
	figures := w.alloc.Figures()
	s := Stats{
		Instance: w.instance,
		Store:    w.cfg.StoreName,
		Parked:   w.alloc.Parked(),
		Grants:   GrantStats{w.grants.installed.Load(), w.grants.burnt.Load(), w.grants.refused.Load()},
		Active:   len(figures),
		Tags:     []TagStats{}, // not null
	}
	if w.loader != nil {
		s.Loads = &LoadStats{w.loader.calls(), w.loader.outcomes[loadFailed].Load()}
	}
	switch lease := w.lease.Load(); {
	case lease == nil:
		s.NoWorker = "not claimed yet"
	case lease.Generator == nil:
		s.NoWorker = lease.Err.Error()
	default:
		s.WorkerID = &lease.Worker
	}
	for _, f := range busiest(figures, maxStatsTags) {
		s.Tags = append(s.Tags, TagStats{f.Tag, f.Step, f.Left, f.Rate, f.Runway.Seconds(), f.Parked})
	}
	return s
}
