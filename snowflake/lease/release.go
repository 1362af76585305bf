package lease

import (
	"context"
	"errors"
)

// release ends a hold: no more IDs, the time that was not used is given back, and the
// lease is deleted. The ends of the other contexts do not matter here; each call has
// its timeout.
func (m *Manager) release(h *hold) error {
	last := h.gen.Revoke()
	return errors.Join(m.giveBack(h, last+1), m.deleteLease(h))
}

// giveBack lowers hi to the first timestamp that was not used. If an earlier write of
// ours arrived late, the entry is not where we think, hence the second attempt.
func (m *Manager) giveBack(h *hold, hi int64) error {
	err := m.writeHi(context.Background(), h, hi)
	if errors.Is(err, errOlder) {
		err = m.writeHi(context.Background(), h, hi)
	}
	return err
}

// deleteLease deletes the lease if it is ours, again with a second attempt.
func (m *Manager) deleteLease(h *hold) error {
	err := m.remove(h)
	if !errors.Is(err, errConflict) {
		return err
	}
	found, err := m.get(context.Background(), m.workers, h.key)
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
	return m.remove(h)
}

func (m *Manager) remove(h *hold) error {
	ctx, cancel := m.call(context.Background())
	defer cancel()
	return m.workers.remove(ctx, h.key, h.leaseRevision)
}
