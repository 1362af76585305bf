package lease

import (
	"context"
	"errors"
)

// release ends a hold: no more IDs, the unused time is given back, and the
// lease is deleted.
func (h *holder) release() error {
	return h.giveBack(h.revoke())
}

// revoke ends the generator for good and returns the first timestamp that was
// not used.
func (h *holder) revoke() (end int64) {
	end = h.gen.Revoke() + 1
	h.uses.end(h.lease.key, end)
	return end
}

// giveBack gives back the time from hi on, and the lease. It needs a context of
// its own, because that of the hold may have ended. Its timeout keeps a stop
// from waiting long for an unreachable JetStream.
func (h *holder) giveBack(hi int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return errors.Join(h.lowerHi(ctx, hi), h.lease.remove(ctx))
}

// removeLease deletes the lease of a claim that failed. The time that it
// reserved stays reserved.
func (h *holder) removeLease() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return h.lease.remove(ctx)
}

// lowerHi sets hi to the first unused timestamp. If an earlier write of ours
// arrived late, the revision differs, hence the second attempt.
func (h *holder) lowerHi(ctx context.Context, hi int64) error {
	err := h.writeHi(ctx, hi)
	if errors.Is(err, errOlder) {
		err = h.writeHi(ctx, hi)
	}
	return err
}
