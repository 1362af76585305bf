package lease

import "time"

// Figures are the figures of a [Manager].
type Figures struct {
	// ClockDiff is the lead of this clock over the server's at the latest
	// comparison: at a heartbeat, or before a claim.
	ClockDiff time.Duration

	// Reserved is the time from now to the end of the fence: about the TTL
	// after a heartbeat, or 15 s if the TTL is shorter. It is negative if
	// heartbeats have failed for too long, and 0 without a worker ID.
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
