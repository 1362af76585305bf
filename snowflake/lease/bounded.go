package lease

import (
	"context"
	"time"
)

// callTimeout bounds one request to JetStream. A heartbeat as a whole ends with the TTL.
const callTimeout = 5 * time.Second

// bounded is a bucket each of whose requests ends after callTimeout. How long a list takes
// depends on what is in the bucket, so that is bounded otherwise.
type bounded struct{ bucket }

func (b bounded) get(ctx context.Context, key string) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return b.bucket.get(ctx, key)
}

func (b bounded) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return b.bucket.update(ctx, key, value, revision)
}

func (b bounded) remove(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return b.bucket.remove(ctx, key, revision)
}
