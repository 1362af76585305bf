package lease

import (
	"context"
	"errors"
)

// release ends a hold: no more IDs, the time that was not used is given back, and the
// lease is deleted. Other contexts have ended by now, so it has its own; a stop must
// not wait longer for a JetStream that is away.
func (m *Manager) release(h *hold) error {
	return m.clearUp(h, h.gen.Revoke()+1)
}

// clearUp gives back the time from hi on, and the lease.
func (m *Manager) clearUp(h *hold, hi int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return errors.Join(m.giveBack(ctx, h, hi), m.deleteLease(ctx, h))
}

// giveBack lowers hi to the first timestamp that was not used. If an earlier write of
// ours arrived late, the entry is not where we think, hence the second attempt.
func (m *Manager) giveBack(ctx context.Context, h *hold, hi int64) error {
	err := m.writeHi(ctx, h, hi)
	if errors.Is(err, errOlder) {
		err = m.writeHi(ctx, h, hi)
	}
	return err
}

// deleteLease deletes the lease if it is ours, again with a second attempt.
func (m *Manager) deleteLease(ctx context.Context, h *hold) error {
	err := m.workers.remove(ctx, h.key, h.leaseRevision)
	if !errors.Is(err, errConflict) {
		return err
	}
	found, err := m.get(ctx, m.workers, h.key)
	if errors.Is(err, errAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	if e, err := decodeLease(found); err != nil || e.Hold != h.id {
		return nil //nolint:nilerr // not ours, whatever it is
	}
	h.leaseRevision = found.revision
	return m.workers.remove(ctx, h.key, h.leaseRevision)
}
