package nemesis

import (
	"context"

	"github.com/idworker/idworker/testing/natstest"
)

// beginPutBack takes a snapshot of the register. Mending restores it, so that the
// register lacks all later writes.
func (r *Run) beginPutBack(ctx context.Context, f Fault, forget func()) (mend func() error, err error) {
	backup, err := natstest.TrySnapshot(r.cluster.conn, registerStream)
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := r.awaitGrants(ctx); err != nil {
			return err
		}
		forget()
		r.figures.bite(f, func(b *bite) { b.files++ })
		return backup.TryRestore(r.cluster.conn)
	}, nil
}
