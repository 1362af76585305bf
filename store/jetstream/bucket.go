package jetstream

import (
	"context"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// ErrUnsafeBucket is a bucket that is configured in a way that could make it forget what
// was handed out. The error names the bucket and the setting.
var ErrUnsafeBucket = durability.ErrUnsafe

// BucketName is the name of the bucket in which segments are counted.
func BucketName(p messages.Prefix) string { return string(p) + "_segments" }

// Bucket is the bucket, with replicas copies, 1 to 5, odd. Of what says that it has been there,
// although it is missing or empty, those know who use it.
func Bucket(prefix messages.Prefix, replicas int, older ...resource.Evidence) resource.Resource {
	return resource.Bucket(natsjs.KeyValueConfig{
		Bucket:      BucketName(prefix),
		Description: "idworker: how far the IDs of each tag have been handed out",
		Replicas:    replicas,
	}, older...)
}

// Create creates the bucket if it is missing, see [Bucket]. One that exists is left as it
// is, its replicas included; whether it is safe, [Open] finds out.
func Create(ctx context.Context, js natsjs.JetStream, prefix messages.Prefix, replicas int) error {
	if err := prefix.Check(); err != nil {
		return err
	}
	return resource.Ensure(ctx, js, Bucket(prefix, replicas))
}

// Open opens the bucket, which has to exist, and checks that it is configured to
// keep what it is told. A change to its configuration afterwards is not noticed.
//
// Errors: messages.ErrPrefix, natsjs.ErrBucketNotFound, ErrUnsafeBucket; anything
// else means that JetStream is away.
func Open(ctx context.Context, js natsjs.JetStream, prefix messages.Prefix) (*Store, error) {
	if err := prefix.Check(); err != nil {
		return nil, err
	}
	kv, stream, err := resource.OpenBucket(ctx, js, BucketName(prefix))
	if err != nil {
		return nil, err
	}
	return &Store{js: js, bucket: kv.Bucket(), kv: kv, stream: stream, prefix: prefix}, nil
}
