package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// peers says by how much the clocks of other workers are ahead of the server's,
// ascending. A heartbeat that took its time makes one look behind.
type peers []time.Duration

// peersOf takes the clocks of all other processes from the leases. One that works
// with another layout is an error: the config was changed while workers ran.
func (m *Manager) peersOf(leases []record) (peers, error) {
	var p peers
	own := m.cfg.Layout.String()
	for _, r := range leases {
		if r.deleted {
			continue
		}
		e, err := decodeLease(r)
		if err != nil || e.Instance == m.cfg.Instance {
			continue
		}
		if e.Layout != own {
			return nil, fmt.Errorf("%w: this worker has %s, worker ID %s is leased with %.100q", ErrForeignLayout, own, r.key, e.Layout)
		}
		p = append(p, time.UnixMilli(e.Clock).Sub(r.created))
	}
	slices.Sort(p)
	return p, nil
}

// median is what most of the peers say: a single one, however far off, does not move
// it much.
func (p peers) median() time.Duration { return p[(len(p)-1)/2]/2 + p[len(p)/2]/2 }

func (p peers) mean() time.Duration {
	sum := 0.0 // of ages, which may not fit
	for _, d := range p {
		sum += float64(d) / float64(len(p))
	}
	return time.Duration(sum)
}

// offServer reports whether the clock is further than limit from the server's,
// wherever between before and after the server was asked.
func (r reading) offServer(limit time.Duration) bool { return r.off(0, limit) }

// offPeers reports whether the clock is further than limit from the other workers'.
// If there are none, it is not.
func (r reading) offPeers(p peers, limit time.Duration) bool {
	return len(p) > 0 && r.off(p.median(), limit)
}

// off reports whether the clock is further than limit from one that is that much
// ahead of the server's.
func (r reading) off(ahead, limit time.Duration) bool {
	other := r.server.Add(ahead)
	return other.Before(r.before.Add(-limit)) || other.After(r.after.Add(limit))
}

func skewError(r reading, p peers) error {
	const format = "2006-01-02T15:04:05.000Z07:00"
	own := r.before.Add(r.after.Sub(r.before) / 2)
	err := fmt.Errorf("%w: own time %s, the server's %s (difference %v)", ErrClockSkew,
		own.Format(format), r.server.UTC().Format(format), own.Sub(r.server).Round(time.Millisecond))
	if len(p) == 0 {
		return fmt.Errorf("%w, no other workers", err)
	}
	at := func(ahead time.Duration) string { return r.server.Add(ahead).UTC().Format(format) }
	return fmt.Errorf("%w, mean of %d other workers %s, median %s", err, len(p), at(p.mean()), at(p.median()))
}

// checkDrift is the check while a worker ID is held.
func (m *Manager) checkDrift(ctx context.Context, h *hold, read reading) error {
	limit := m.cfg.MaxClockSkew
	if !read.offServer(limit) {
		h.outvoted = false
		return nil
	}
	// The others are looked at only if there is a reason to.
	leases, err := m.list(ctx, m.workers)
	if err != nil {
		return err
	}
	others, err := m.peersOf(leases)
	if err != nil {
		return err
	}
	if len(others) < 2 || read.offPeers(others, limit) {
		return skewError(read, others)
	}
	if !h.outvoted {
		h.outvoted = true
		m.cfg.Log.Warn("the server's clock differs from all workers'", zap.Error(skewError(read, others)))
	}
	return nil
}
