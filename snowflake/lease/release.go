package lease

import (
	"context"
	"errors"
)

// release ends a hold: no more IDs, the time that was not used is given back, and the
// lease is deleted. The ends of the other contexts do not matter here, but a process
// that stops should not wait long for a server that is away: all of it has as much
// time as one call.
func (m *Manager) release(h *hold) error {
	last := h.gen.Revoke()
	ctx, cancel := m.call(context.Background())
	defer cancel()
	return errors.Join(m.giveBack(ctx, h, last+1), m.deleteLease(ctx, h))
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
	err := m.remove(ctx, h)
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
	return m.remove(ctx, h)
}

func (m *Manager) remove(ctx context.Context, h *hold) error {
	ctx, cancel := m.call(ctx)
	defer cancel()
	return m.workers.remove(ctx, h.key, h.leaseRevision)
}
