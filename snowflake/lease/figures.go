package lease

import "time"

// Figures are the figures of a [Manager].
type Figures struct {
	// ClockDiff is how far this clock was ahead of the server's when they were last
	// compared: at a heartbeat, or before a claim.
	ClockDiff time.Duration

	// Reserved is how far ahead of the clock the fence ends: about the TTL after a
	// heartbeat, or 15 s if the TTL is shorter, negative if heartbeats have failed for too long, and 0 if no worker
	// ID is held.
	Reserved time.Duration
}

// Figures returns the present figures. It may be called from any goroutine.
func (m *Manager) Figures() Figures {
	f := Figures{ClockDiff: time.Duration(m.clockDiff.Load())}
	if h := m.current.Load(); h != nil {
		f.Reserved = m.cfg.Layout.TimeAt(h.hi.Load()).Sub(h.clock.time())
	}
	return f
}
