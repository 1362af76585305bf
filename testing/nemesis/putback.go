package nemesis

import (
	"github.com/idworker/idworker/testing/natstest"
)

// countersBucket is the stream of the counters, or of the ledger.
func (r *Run) registerStream() string {
	if r.Store == "jetstream" {
		return "KV_ids_segments"
	}
	return "KV_ids_ledger"
}

// beginPutBack takes a backup of the register. Mending puts it back, so that it lacks what was granted meanwhile. The
// loaders are spared: the promise covers a register that goes back as long as one lives that has watched it.
func (r *Run) beginPutBack() (note string, mend func() error, err error) {
	stream := r.registerStream()
	backup, err := natstest.TrySnapshot(r.cluster.conn, stream)
	if err != nil {
		return stream, nil, err
	}
	return stream, func() error { backup.Restore(r.T, r.cluster.conn); return nil }, nil
}
