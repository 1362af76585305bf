package jetstream

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
)

// leaderEntry is what the leader of the bucket's stream holds for a key.
type leaderEntry struct {
	value    []byte
	revision uint64
	deleted  bool // the latest message is a delete marker
}

// readLeader reads a key from the leader of the bucket's stream, or returns
// natsjs.ErrKeyNotFound. The KV API itself may read from a replica that lags behind.
func (s *Store) readLeader(ctx context.Context, key string) (leaderEntry, error) {
	m, err := leader.Last(ctx, s.js, "KV_"+s.bucket, "$KV."+s.bucket+"."+key)
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return leaderEntry{}, natsjs.ErrKeyNotFound
	}
	return leaderEntry{value: m.Data, revision: m.Sequence, deleted: isDeleteMarker(m.Header)}, err
}

// isDeleteMarker reports whether a message with that header marks a key as deleted,
// purged or expired.
func isDeleteMarker(h nats.Header) bool {
	op := h.Get("KV-Operation")
	return op == "DEL" || op == "PURGE" || h.Get(natsjs.MarkerReasonHeader) != ""
}
