package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
)

// loadEventAge is how long a load event may wait for a loader. Older ones are of
// no use: their requests have long been answered, and workers ask again.
const loadEventAge = 30 * time.Second

// loaderConsumer is the durable consumer that all loaders share.
const loaderConsumer = "loader"

// Provision creates the load stream, the tag directory and the config bucket where they
// are missing.
// What exists is left as it is, but checked for what the load path relies on.
func Provision(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	if err := provisionLoadStream(ctx, js, prefix, replicas); err != nil {
		return err
	}
	for _, bucket := range []jetstream.KeyValueConfig{
		{Bucket: prefix.TagsBucket(), Description: "idworker: configuration of every tag"},
		{Bucket: prefix.ConfigBucket(), Description: "idworker: what all processes have to agree on"},
	} {
		bucket.Storage, bucket.Replicas = jetstream.FileStorage, replicas
		if _, err := js.CreateKeyValue(ctx, bucket); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return fmt.Errorf("create bucket %s: %w", bucket.Bucket, err)
		}
	}
	return nil
}

// provisionLoadStream creates the work queue of load events. One message per
// subject, and a second refused, is what keeps it to one load at a time per worker
// and tag.
func provisionLoadStream(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	name := prefix.LoadStream()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:                 name,
		Description:          "idworker: load events of workers, one per worker and tag",
		Subjects:             []string{prefix.Load("*", ">")},
		Retention:            jetstream.WorkQueuePolicy,
		Storage:              jetstream.MemoryStorage,
		Replicas:             replicas,
		MaxAge:               loadEventAge,
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err = js.Stream(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("create stream %s: %w", name, err)
	}
	got := stream.CachedInfo().Config
	if got.MaxMsgsPerSubject != 1 || !got.DiscardNewPerSubject || got.Retention != jetstream.WorkQueuePolicy {
		return fmt.Errorf("stream %s exists, but is no work queue that refuses a second message per subject; delete it, and it is made anew", name)
	}
	return nil
}

// openLoaderConsumer returns the loaders' consumer, created if it is missing.
func openLoaderConsumer(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (jetstream.Consumer, error) {
	return js.CreateOrUpdateConsumer(ctx, prefix.LoadStream(), jetstream.ConsumerConfig{
		Durable:       loaderConsumer,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       storeTimeout + 2*time.Second,
		MaxDeliver:    -1, // a used-up message would block its subject
		MaxAckPending: -1,
		MemoryStorage: true,
	})
}
