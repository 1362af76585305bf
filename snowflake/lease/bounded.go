package lease

import (
	"context"
	"time"
)

// callTimeout bounds one request to JetStream. A heartbeat as a whole ends with the TTL.
const callTimeout = 5 * time.Second

// callTimeoutFor bounds one request to JetStream where a worker ID depends on the answer. A
// request that was sent to a server that froze is never answered. The next one, which goes to
// another server, must come early enough to keep the worker ID.
func callTimeoutFor(ttl time.Duration) time.Duration {
	return min(callTimeout, max(time.Second, ttl/6))
}

// bounded is a bucket each of whose requests ends after a time. How long a list takes depends on
// what is in the bucket, so that is bounded otherwise.
type bounded struct {
	bucket
	cfg *Config // its TTL becomes that of the bucket of leases, and the time follows
}

func (b bounded) get(ctx context.Context, key string) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(b.cfg.TTL))
	defer cancel()
	return b.bucket.get(ctx, key)
}

func (b bounded) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(b.cfg.TTL))
	defer cancel()
	return b.bucket.update(ctx, key, value, revision)
}

func (b bounded) remove(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeoutFor(b.cfg.TTL))
	defer cancel()
	return b.bucket.remove(ctx, key, revision)
}
