package jetstream

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
)

// stored is what the leader holds for a key.
type stored struct {
	value    []byte
	revision uint64
	deleted  bool // the value is a marker that says so
}

// readLeader reads a key from the leader of the bucket's stream, or returns
// natsjs.ErrKeyNotFound. The KV API itself may read from a replica that lags.
func (s *Store) readLeader(ctx context.Context, key string) (stored, error) {
	m, err := leader.Last(ctx, s.js, "KV_"+s.bucket, "$KV."+s.bucket+"."+key)
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return stored{}, natsjs.ErrKeyNotFound
	}
	return stored{value: m.Data, revision: m.Sequence, deleted: isMarker(m.Header)}, err
}

// isMarker reports whether a message's header makes it the marker of a key that was
// deleted, purged or expired.
func isMarker(h nats.Header) bool {
	op := h.Get("KV-Operation")
	return op == "DEL" || op == "PURGE" || h.Get(natsjs.MarkerReasonHeader) != ""
}
