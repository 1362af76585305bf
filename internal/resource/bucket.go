package resource

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
)

// BucketStream is the name of the stream beneath a bucket.
func BucketStream(bucket string) string { return "KV_" + bucket }

// Bucket is a KV bucket in which something is counted or remembered: one that exists has to
// pass [durability.CheckStream]. Its history is always 1, its storage always file, and its
// entries do not expire. One that is missing is not created if there is evidence that it has
// been there; the error is an [*OlderError] then.
func Bucket(config jetstream.KeyValueConfig, older ...Evidence) Resource {
	config.TTL = 0
	return bucket(config, durability.CheckStream, false, older...)
}

// LeaseBucket is a KV bucket whose entries expire after config.TTL, which must not be 0, if
// they are not written again. One that exists may have another TTL, but has to have one.
func LeaseBucket(config jetstream.KeyValueConfig) Resource {
	return bucket(config, checkExpires, true)
}

func bucket(config jetstream.KeyValueConfig, check func(jetstream.StreamConfig) error, mends bool, older ...Evidence) Resource {
	config.History, config.Storage = 1, jetstream.FileStorage
	return stream{
		name:   "bucket " + config.Bucket,
		bucket: config.Bucket,
		config: jetstream.StreamConfig{
			Name: BucketStream(config.Bucket), Storage: config.Storage, Replicas: config.Replicas, MaxAge: config.TTL,
		},
		create: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateKeyValue(ctx, config)
			return err
		},
		check: check,
		mends: mends,
		older: older,
	}
}

// checkExpires refuses a bucket whose entries stay for ever.
func checkExpires(c jetstream.StreamConfig) error {
	if c.MaxAge > 0 {
		return nil
	}
	return &durability.UnsafeError{
		Stream: c.Name, Setting: durability.NoExpiry,
		Reason: "leases never expire, so what a process that crashed had leased is lost for good",
	}
}

// OpenBucket opens a bucket in which something is counted or remembered, and the stream
// beneath it, for what a KV does not tell.
//
// Errors: jetstream.ErrBucketNotFound, durability.ErrUnsafe; anything else means that
// JetStream is away. All of them name the bucket.
func OpenBucket(ctx context.Context, js jetstream.JetStream, name string) (jetstream.KeyValue, jetstream.Stream, error) {
	return openBucket(ctx, js, name, durability.CheckStream)
}

// OpenLeaseBucket is OpenBucket for a bucket whose entries have to expire.
func OpenLeaseBucket(ctx context.Context, js jetstream.JetStream, name string) (jetstream.KeyValue, jetstream.Stream, error) {
	return openBucket(ctx, js, name, checkExpires)
}

func openBucket(ctx context.Context, js jetstream.JetStream, name string, check func(jetstream.StreamConfig) error) (jetstream.KeyValue, jetstream.Stream, error) {
	fail := func(err error) (jetstream.KeyValue, jetstream.Stream, error) {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = jetstream.ErrBucketNotFound // it was removed a moment ago
		}
		return nil, nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return fail(err)
	}
	s, err := js.Stream(ctx, BucketStream(name))
	if err != nil {
		return fail(err)
	}
	if err := check(s.CachedInfo().Config); err != nil {
		return fail(err)
	}
	return kv, s, nil
}
