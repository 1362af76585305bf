package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/idworker/idworker/snowflake"
)

// probing is a bucket that probes a generator during each write.
type probing struct {
	bucket
	probe func()
}

func (p probing) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	p.probe()
	return p.bucket.update(ctx, key, value, revision)
}

// TestNothingIsIssuedWhileTimeIsGivenBack: the generator is revoked first.
// Otherwise it could issue an ID between reading the last timestamp and the
// write.
func TestNothingIsIssuedWhileTimeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newWorld().process("p", 1)
		h := mustSeek(t, p.manager())
		mustNext(t, h.gen)
		probed := 0
		h.fence.bucket = probing{h.fence.bucket, func() {
			probed++
			if id, err := h.gen.Next(); !errors.Is(err, snowflake.ErrRevoked) {
				t.Errorf("while the time is given back: %v, %v, want ErrRevoked", id, err)
			}
		}}
		if err := h.release(); err != nil || probed == 0 {
			t.Fatal(err, probed)
		}
	})
}
