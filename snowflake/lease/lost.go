package lease

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// RestoreClock creates the clock bucket if it is missing. If the bucket is not
// that of the installation's config, the error is a [*ClockLostError]: no worker
// claims a worker ID until an operator has decided.
func RestoreClock(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	if err := clockBucket(prefix, replicas).Ensure(ctx, js); err != nil {
		return err
	}
	installed, known, err := agreement.Lookup(ctx, js, prefix, ClockIDKey)
	if err != nil || !known {
		return err
	}
	found := ""
	err = kv.ListAll(ctx, js, ClockBucketName(prefix), func(e kv.Entry) bool { // an administrator has no right to read a single key
		if e.Key == identityKey && e.Exists() {
			found = string(e.Value)
		}
		return true
	})
	if err != nil || found == installed {
		return err
	}
	wait, err := LossWait(ctx, js, prefix)
	if err != nil {
		return err
	}
	return &ClockLostError{Found: found, Installed: installed, StopFor: wait, Bucket: agreement.BucketName(prefix), Key: ClockIDKey}
}

// ClockLost reports whether the clock bucket is missing.
func ClockLost(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (bool, error) {
	_, err := js.Stream(ctx, kv.StreamName(ClockBucketName(prefix)))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return true, nil
	}
	return false, err
}

// LossWait is how long after the last write to a lost clock bucket the time that
// it had reserved ends, for workers with the default --max-ahead and
// --max-clock-skew.
func LossWait(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (time.Duration, error) {
	ttl := DefaultTTL
	bucket, err := js.Stream(ctx, kv.StreamName(WorkersBucketName(prefix)))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fenceLength(ttl) + snowflake.DefaultMaxAhead + 2*DefaultMaxClockSkew, nil
	case err != nil:
		return 0, err
	}
	leases, err := listBucket(ctx, js, WorkersBucketName(prefix))
	if err != nil {
		return 0, err
	}
	ttl = bucket.CachedInfo().Config.MaxAge
	return max(fenceLength(ttl), longestFence(leases)) + snowflake.DefaultMaxAhead + 2*DefaultMaxClockSkew, nil
}
