// Package agreement is the bucket <prefix>_config: what all processes of an installation
// have to agree on, such as the layout of snowflake IDs and the store that counts.
//
// Whoever comes first writes its opinion down, by compare-and-set, and it stays: of several
// processes that start at once one wins, and all of them read what the winner wrote. Nothing
// here changes or removes what is written; that is an operator's decision.
package agreement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// BucketName is the name of the bucket.
func BucketName(p messages.Prefix) string { return string(p) + "_config" }

// Bucket is the bucket, with replicas copies, 1 to 5, odd. The evidence that it has been there
// is what those know who use it.
func Bucket(prefix messages.Prefix, replicas int, older ...resource.Evidence) resource.Resource {
	return resource.Bucket(jetstream.KeyValueConfig{
		Bucket: BucketName(prefix), Description: "idworker: what all processes have to agree on", Replicas: replicas,
	}, older...)
}

// HasKey is the evidence that a key was agreed on, for a bucket that has to be there
// before.
func HasKey(prefix messages.Prefix, key string) resource.Evidence {
	return func(ctx context.Context, js jetstream.JetStream, missing bool) (string, error) {
		if !missing {
			return "", nil
		}
		if _, found, err := Lookup(ctx, js, prefix, key); err != nil || found {
			return fmt.Sprintf("bucket %s has the key %s", BucketName(prefix), key), err
		}
		return "", nil
	}
}

// Lookup is [Agreement.Find] where there may be no bucket yet.
func Lookup(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, key string) (value string, found bool, err error) {
	kv, err := js.KeyValue(ctx, BucketName(prefix))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("bucket %s: %w", BucketName(prefix), err)
	}
	return (&Agreement{kv: kv}).Find(ctx, key)
}

// Agreement is the open bucket.
type Agreement struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream
}

// Open opens the bucket, which has to exist and to be safe, see [resource.OpenBucket].
func Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (*Agreement, error) {
	kv, stream, err := resource.OpenBucket(ctx, js, BucketName(prefix))
	if err != nil {
		return nil, err
	}
	return &Agreement{kv, stream}, nil
}

// ServerTime is the time at which the server answered when the bucket was opened.
func (a *Agreement) ServerTime() time.Time { return a.stream.CachedInfo().TimeStamp }

// Replicas is how many copies the bucket has.
func (a *Agreement) Replicas() int { return a.stream.CachedInfo().Config.Replicas }

// A bucket that was just made in a cluster is not read from at once: whoever asks too early is
// told that nobody is there.
const (
	findAttempts = 40
	findPause    = 50 * time.Millisecond
)

// Find returns what was agreed on for a key, if anything was. The answer may come from a
// replica that lags.
func (a *Agreement) Find(ctx context.Context, key string) (value string, found bool, err error) {
	entry, err := a.kv.Get(ctx, key)
	for n := 1; n < findAttempts && errors.Is(err, nats.ErrNoResponders) && ctx.Err() == nil; n++ {
		pause.For(ctx, findPause)
		entry, err = a.kv.Get(ctx, key)
	}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, a.keyError(key, err)
	}
	return string(entry.Value()), true, nil
}

// The reads of a replica that lags behind the write that beat ours, by milliseconds.
const (
	agreeAttempts = 10
	agreePause    = 50 * time.Millisecond
)

// Agree returns what was agreed on for a key. If that is nothing yet, own is written down
// and returned; of several callers who do so at once, one wins, and all get what it wrote.
// After an error the outcome is unknown, and asking again finds out.
func (a *Agreement) Agree(ctx context.Context, key, own string) (string, error) {
	for range agreeAttempts {
		value, found, err := a.Find(ctx, key)
		if found || err != nil {
			return value, err
		}
		if _, err = a.kv.Create(ctx, key, []byte(own)); err == nil {
			return own, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return "", a.keyError(key, err)
		}
		pause.For(ctx, agreePause)
	}
	return "", a.keyError(key, errors.New("others write it, but it cannot be read"))
}

// keyError says in which bucket and at which key err happened.
func (a *Agreement) keyError(key string, err error) error {
	return fmt.Errorf("bucket %s, key %s: %w", a.kv.Bucket(), key, err)
}
