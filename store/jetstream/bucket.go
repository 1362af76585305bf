package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// ErrUnsafeBucket is a bucket that is configured in a way that could make it forget what
// was handed out. The error names the bucket, the setting and the remedy.
var ErrUnsafeBucket = errors.New("bucket is not safe to count in")

// BucketName is the name of the bucket in which segments are counted.
func BucketName(p messages.Prefix) string { return string(p) + "_segments" }

// Bucket is the bucket, with replicas copies, 1 to 5, odd.
func Bucket(prefix messages.Prefix, replicas int) resource.Resource {
	return resource.Bucket(natsjs.KeyValueConfig{
		Bucket:      BucketName(prefix),
		Description: "idworker: how far the IDs of each tag have been handed out",
		Replicas:    replicas,
	})
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
	bucket := BucketName(prefix)
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		if errors.Is(err, natsjs.ErrBucketNotFound) {
			return nil, fmt.Errorf("bucket %s: %w; the first worker makes it: idworker serve", bucket, err)
		}
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucket, err)
	}
	if err := checkSafe(bucket, stream.CachedInfo().Config); err != nil {
		return nil, err
	}
	return &Store{js: js, bucket: bucket, kv: kv, stream: stream}, nil
}

// checkSafe refuses every setting with which the server itself loses or replaces
// counters. That it also syncs to disk is checked where the server is run.
func checkSafe(bucket string, c natsjs.StreamConfig) error {
	unsafe := func(what, remedy string) error {
		return fmt.Errorf("%w: %s: %s; %s", ErrUnsafeBucket, bucket, what, remedy)
	}
	edit := "run nats stream edit " + c.Name + " "
	const anew = "copy its values to a bucket without, and keep them when you replace it: " +
		"an empty bucket hands out all IDs again"
	switch {
	case c.Storage != natsjs.FileStorage:
		return unsafe("it is kept in memory, and gone when the server stops", anew)
	case c.PersistMode == natsjs.AsyncPersistMode:
		return unsafe("persist_mode is async, so writes are acknowledged before they are on disk", anew)
	case c.Mirror != nil || len(c.Sources) > 0:
		return unsafe("it mirrors or sources another stream, which writes over its counters", anew)
	case c.Retention != natsjs.LimitsPolicy:
		return unsafe("its retention is not limits, so that counters are gone once they are read", anew)
	case c.MaxAge != 0:
		return unsafe(fmt.Sprintf("counters expire after %v (TTL)", c.MaxAge), edit+"--max-age=-1")
	case c.Discard != natsjs.DiscardNew && (c.MaxMsgs > 0 || c.MaxBytes > 0):
		return unsafe("when it is full it discards the oldest counters", edit+"--discard=new")
	}
	return nil
}
