package lease

import (
	"time"

	"github.com/idworker/idworker/snowflake"
)

// Figures tells how a [Manager] is doing.
type Figures struct {
	// ClockDiff is how far this clock was ahead of the server's when they were last
	// compared: at a heartbeat, or when a worker ID was to be claimed.
	ClockDiff time.Duration

	// Reserved is how far ahead of the clock time is reserved for the worker ID:
	// about TTL after a heartbeat, negative if heartbeats have failed for too long,
	// and 0 if no worker ID is held.
	Reserved time.Duration
}

// Figures may be called from any goroutine.
func (m *Manager) Figures() Figures {
	f := Figures{ClockDiff: time.Duration(m.clockDiff.Load())}
	if r := m.reserved.Load(); r != nil {
		f.Reserved = r.until.Sub(clockTime(r.clock))
	}
	return f
}

// reservation is the time that a holding may use.
type reservation struct {
	until time.Time
	clock snowflake.Clock
}

// noteReserved has Figures tell of what a holding may use now.
func (m *Manager) noteReserved(h *hold) {
	m.reserved.Store(&reservation{m.cfg.Layout.TimeAt(h.hi), h.clock})
}

// diff is how far the clock is ahead of the server's, as well as can be told.
func (r reading) diff() time.Duration { return r.before.Add(r.after.Sub(r.before) / 2).Sub(r.server) }
