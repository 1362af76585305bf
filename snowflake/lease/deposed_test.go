package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// deposed is a bucket whose leader was frozen and resumes: it answers a number
// of writes from its old state, in which all leases have expired.
type deposed struct {
	bucket
	writes  int
	refused bool // the latest write
}

func (d *deposed) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if d.refused = d.writes > 0; d.refused {
		d.writes--
		return 0, errConflict
	}
	return d.bucket.update(ctx, key, value, revision)
}

func (d *deposed) get(ctx context.Context, key string) (bucketEntry, error) {
	if d.refused {
		return bucketEntry{}, errAbsent
	}
	return d.bucket.get(ctx, key)
}

// TestDeposedLeaderTakesNoWorkerID: a leader that has not noticed its successor
// costs no worker ID. If it still reports the lease as gone later, it is right.
func TestDeposedLeaderTakesNoWorkerID(t *testing.T) {
	for writes, want := range map[int]error{1: nil, maxAbsent - 1: nil, 1 << 30: ErrLost} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.workers.setLifetime(shortTTL)
			m := w.process("p", 1).manager()
			d := &deposed{bucket: m.workers}
			m.workers = d
			h := mustSeek(t, m)
			time.Sleep(shortTTL / 3)
			d.writes = writes
			if err := h.renew(t.Context(), time.Now().Add(time.Minute)); !errors.Is(err, want) {
				t.Errorf("after %d writes: %v, want %v", writes, err, want)
			}
		})
	}
}
