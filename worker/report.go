package worker

import (
	"os"
	"time"
)

// Report is what a process tells of itself when it is asked, see [AskReports]. It is for people
// and tools that look at an installation; nothing depends on it.
type Report struct {
	Instance string    `json:"instance"`
	Host     string    `json:"host,omitempty"`
	Role     Role      `json:"role"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"` // by the process's clock

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
func (r *Report) Answers() bool { return r.Role != RoleLoader }

// Loads reports whether the process reserves segments.
func (r *Report) Loads() bool { return r.Role != RoleWorker }

// OverloadStats is how often a worker left the queue groups because requests waited too long for
// their turn, and whether it is out of them now.
type OverloadStats struct {
	Now   bool  `json:"now"`
	Times int64 `json:"times"`
}

// ClockStats is about a worker's clock, and the time of its worker ID.
type ClockStats struct {
	AheadMS    int64   `json:"ahead_ms"`         // of the NATS server's
	ReservedIn float64 `json:"reserved_seconds"` // how far ahead of the clock time is reserved; 0 without a worker ID
}

// OutageStats is how a loader's store fails.
type OutageStats struct {
	Now   bool      `json:"now"`
	Times int64     `json:"times"`          // so far, the present one included
	Since time.Time `json:"since,omitzero"` // when the present one began
	Error string    `json:"error,omitempty"`
}

// report collects what the process tells of itself, with the busiest tags up to a number.
func (w *Process) report(tags int) Report {
	host, _ := os.Hostname() // only informs people
	r := Report{
		Instance: w.info.instance, Host: host, Role: w.info.cfg.Role, Version: w.info.cfg.Version, Started: w.started,
		Stats: w.statsOf(tags),
	}
	for _, h := range w.halves {
		h.fillReport(&r)
	}
	if err := w.Ready(); err != nil {
		r.NotReady = err.Error()
	} else if err := w.Degraded(); err != nil {
		r.Degraded = err.Error()
	}
	return r
}

func (a *answering) fillReport(r *Report) {
	r.Overloads = &OverloadStats{a.shedder.away.Load(), a.shedder.overloads.Load()}
	f := a.snowflakes.manager.Figures()
	r.Clock = &ClockStats{f.ClockDiff.Milliseconds(), f.Reserved.Seconds()}
	r.Requests = make(map[string]int64)
	for _, figures := range []*requestFigures{&a.figures, &a.snowflakes.figures} {
		for i, code := range outcomes {
			if n := figures.outcomes[i].Load(); n > 0 {
				r.Requests[outcomeName(code)] += n
			}
		}
	}
}

func (l *loading) fillReport(r *Report) {
	r.Outages = l.loader.health.outageStats()
	if err := l.cfg.Store.Stopped(); err != nil {
		r.Stopped = err.Error()
	}
}

func (n *neighbourhood) fillReport(*Report) {}

// maxOutageError bounds what is told of an error.
const maxOutageError = 300

func (h *health) outageStats() *OutageStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.failing {
		return &OutageStats{Times: h.outages}
	}
	text := h.latest.Error()
	return &OutageStats{Now: true, Times: h.outages, Since: h.since, Error: text[:min(len(text), maxOutageError)]}
}
