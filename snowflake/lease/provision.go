package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// ClockBucketName is the name of the bucket that says up to when each worker ID's time has
// been given away.
func ClockBucketName(p messages.Prefix) string { return string(p) + "_clock" }

// WorkersBucketName is the name of the bucket in which worker IDs are leased.
func WorkersBucketName(p messages.Prefix) string { return string(p) + "_workers" }

// Resources are the three buckets, with replicas copies, 1 to 5, odd, and the TTL for the
// leases.
func Resources(prefix messages.Prefix, ttl time.Duration, replicas int) []resource.Resource {
	return []resource.Resource{
		agreement.Bucket(prefix, replicas),
		resource.Bucket(jetstream.KeyValueConfig{
			Bucket: ClockBucketName(prefix), Description: "idworker: up to when the time of each worker ID is given away", Replicas: replicas,
		}),
		resource.Bucket(jetstream.KeyValueConfig{
			Bucket: WorkersBucketName(prefix), Description: "idworker: who leases which worker ID", Replicas: replicas, TTL: ttl,
		}),
	}
}

// Create creates the three buckets where they are missing, see [Resources]. What exists is
// left as it is; whether it is safe, [Open] finds out.
func Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, ttl time.Duration, replicas int) error {
	if err := prefix.Check(); err != nil {
		return err
	}
	return resource.Ensure(ctx, js, Resources(prefix, ttl, replicas)...)
}

// CheckBuckets reports whether the three buckets exist and are safe: jetstream.ErrBucketNotFound
// or ErrUnsafeBucket if not.
func CheckBuckets(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	for _, bucket := range []struct {
		name    string
		forgets bool
	}{{agreement.BucketName(prefix), false}, {ClockBucketName(prefix), false}, {WorkersBucketName(prefix), true}} {
		if _, _, err := openBucket(ctx, js, bucket.name, bucket.forgets); err != nil {
			return err
		}
	}
	return nil
}

// openBucket opens a bucket, which has to exist and to be safe, and returns its
// stream too.
func openBucket(ctx context.Context, js jetstream.JetStream, name string, forgets bool) (kvBucket, jetstream.Stream, error) {
	fail := func(err error) (kvBucket, jetstream.Stream, error) {
		return kvBucket{}, nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	kv, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		err = fmt.Errorf("%w; the first worker makes it: idworker serve", err)
	}
	if err != nil {
		return fail(err)
	}
	stream, err := js.Stream(ctx, "KV_"+name)
	if err != nil {
		return fail(err)
	}
	if err := checkSafe(stream.CachedInfo().Config, forgets); err != nil {
		return fail(err)
	}
	return kvBucket{kv}, stream, nil
}

// checkSafe refuses every setting with which the server itself loses or replaces
// entries, and a bucket of leases that never end. That the server also syncs to
// disk is checked where it is run.
func checkSafe(c jetstream.StreamConfig, forgets bool) error {
	unsafe := func(what string) error { return fmt.Errorf("%w: %s", ErrUnsafeBucket, what) }
	switch {
	case forgets && c.MaxAge == 0:
		return unsafe("it has no TTL, so the worker IDs of processes that crash are lost for good")
	case forgets:
		return nil
	case c.Storage != jetstream.FileStorage:
		return unsafe("it is kept in memory, and gone when the server stops")
	case c.PersistMode == jetstream.AsyncPersistMode:
		return unsafe("persist_mode is async, so writes are acknowledged before they are on disk")
	case c.Mirror != nil || len(c.Sources) > 0:
		return unsafe("it mirrors or sources another stream, which writes over its entries")
	case c.MaxAge != 0:
		return unsafe(fmt.Sprintf("entries expire after %v (TTL)", c.MaxAge))
	case c.Discard != jetstream.DiscardNew && (c.MaxMsgs > 0 || c.MaxBytes > 0):
		return unsafe("when it is full it discards the oldest entries")
	}
	return nil
}
