package lease

import (
	"fmt"
	"time"
)

// watched is what was seen of the lease of whoever holds the worker ID that was given.
type watched struct {
	revision uint64 // the highest
	renewals int    // since it was seen first
}

// renewalsOfTheLiving is after how many renewals a holder counts as alive. One may have been on its
// way when its sender died.
const renewalsOfTheLiving = 2

// see takes note of the lease as it was listed. An older state of it, which a replica that lags
// may show, says nothing.
func (w *watched) see(revision uint64) {
	if w.revision > 0 && revision > w.revision {
		w.renewals++
	}
	w.revision = max(w.revision, revision)
}

// given returns the worker ID that was given, if it is free. If it is not, the error says who holds
// it, and whether its holder lives.
func (m *Manager) given(f field, leases []record, now int64) (int64, error) {
	worker := *m.cfg.Worker
	if f.leased(worker) {
		m.holder.see(f.leases[worker].revision)
		return 0, m.heldError(worker, leases)
	}
	m.holder = watched{}
	mark := f.clocks[worker]
	if mark.err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoWorkerID, mark.err)
	}
	if mark.hi > now+m.cfg.units(m.cfg.MaxAhead) {
		return 0, fmt.Errorf("%w: worker ID %d is reserved until %s",
			ErrNoWorkerID, worker, m.cfg.Layout.TimeAt(mark.hi).Format(time.RFC3339))
	}
	return worker, nil
}

// heldError says who holds the worker ID that was given.
func (m *Manager) heldError(worker int64, leases []record) error {
	err := &HeldError{Datacenter: m.cfg.Datacenter, Worker: worker, Alive: m.holder.renewals >= renewalsOfTheLiving}
	for _, r := range leases {
		if r.key != key(m.cfg.Layout, m.cfg.Datacenter, worker) {
			continue
		}
		if v, corrupt := decodeLease(r); corrupt == nil {
			err.Instance, err.Host, err.Since = v.Instance, v.Host, v.Since
		}
	}
	return err
}
