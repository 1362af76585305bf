package lease

import (
	"fmt"
	"time"
)

// holderWatch counts the renewals of the lease on the configured worker ID.
type holderWatch struct {
	revision uint64 // the highest
	renewals int    // since it was seen first
}

// aliveRenewals is the number of renewals that prove that a holder is alive,
// after two thirds of the TTL. A single renewal may have been in flight when
// its sender died.
const aliveRenewals = 2

// see records a listed lease. An older state, as from a lagging replica, has no
// effect.
func (w *holderWatch) see(revision uint64) {
	if w.revision > 0 && revision > w.revision {
		w.renewals++
	}
	w.revision = max(w.revision, revision)
}

// given returns the configured worker ID, if it is free. Otherwise the error
// names the holder, and whether it is alive.
func (m *Manager) given(f idTable, leases []bucketEntry, now int64) (int64, error) {
	worker := *m.cfg.Worker
	if f.leased(worker) {
		m.holder.see(f.leases[worker].revision)
		return 0, m.heldError(worker, leases)
	}
	m.holder = holderWatch{}
	state := f.clocks[worker]
	if state.err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoWorkerID, state.err)
	}
	if state.hi > now+m.cfg.units(m.cfg.MaxAhead) {
		return 0, fmt.Errorf("%w: worker ID %d is reserved until %s",
			ErrNoWorkerID, worker, m.cfg.Layout.TimeAt(state.hi).Format(time.RFC3339))
	}
	return worker, nil
}

// heldError returns an error that names the holder of the configured worker ID.
func (m *Manager) heldError(worker int64, leases []bucketEntry) error {
	err := &HeldError{Datacenter: m.cfg.Datacenter, Worker: worker, Alive: m.holder.renewals >= aliveRenewals}
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
