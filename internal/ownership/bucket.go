package ownership

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/messages"
)

// bucket is what this package needs of the KV bucket. The tests have another one, in which
// everything goes wrong that can.
type bucket interface {
	// write writes if the key is at that revision, 0 for none, and returns the new one.
	// errConflict says that the key is not, or that the message was sent twice and the first
	// one counted; after any other error it may have been written, or be written later.
	write(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)

	// read returns the latest of a key, or an older one, or errAbsent.
	read(ctx context.Context, key string) (record, error)

	// follow reads all entries, in the order of their revisions, and then every change.
	follow(ctx context.Context) (feed, error)

	// agree returns which identity the installation's bucket has, and makes it this one if
	// the installation has had none.
	agree(ctx context.Context, identity string) (string, error)
}

// feed is a [kvwatch.Feed].
type feed interface {
	Next(ctx context.Context) (kvwatch.Entry, error)
	CaughtUp() bool
	Close()
}

// record is an entry of the bucket.
type record struct {
	key      string
	value    []byte
	revision uint64
}

var (
	errAbsent   = errors.New("no such key")
	errConflict = errors.New("key was changed meanwhile")
)

// kvBucket is the bucket in JetStream.
type kvBucket struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	prefix messages.Prefix
}

func (b kvBucket) write(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	written, err := b.kv.Update(ctx, key, value, revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		err = errConflict
	}
	return written, b.keyError(key, err)
}

func (b kvBucket) read(ctx context.Context, key string) (record, error) {
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = errAbsent
	}
	if err != nil {
		return record{}, b.keyError(key, err)
	}
	return record{key, entry.Value(), entry.Revision()}, nil
}

func (b kvBucket) follow(ctx context.Context) (feed, error) {
	f, err := kvwatch.OpenFeed(ctx, b.js, b.kv.Bucket(), kvwatch.Position{})
	if err != nil {
		return nil, b.keyError(">", err)
	}
	return f, nil
}

func (b kvBucket) agree(ctx context.Context, identity string) (string, error) {
	config, err := agreement.Open(ctx, b.js, b.prefix)
	if err != nil {
		return "", err
	}
	return config.Agree(ctx, ConfigKey, identity)
}

// keyError says in which bucket and at which key err happened; nil stays nil.
func (b kvBucket) keyError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bucket %s, key %s: %w", b.kv.Bucket(), key, err)
}
