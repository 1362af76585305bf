package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
)

// Bucket is an open bucket, for reading and writing single keys. Its errors
// name the bucket and the key.
type Bucket struct {
	js      jetstream.JetStream
	entries jetstream.KeyValue
	stream  jetstream.Stream
}

// Open opens a bucket whose entries must last.
//
// Errors: jetstream.ErrBucketNotFound, durability.ErrUnsafe; any other error
// means that JetStream is unreachable. All of them name the bucket.
func Open(ctx context.Context, js jetstream.JetStream, name string) (*Bucket, error) {
	return open(ctx, js, name, durability.CheckStream)
}

// OpenLeases is Open for a bucket whose entries must expire.
func OpenLeases(ctx context.Context, js jetstream.JetStream, name string) (*Bucket, error) {
	return open(ctx, js, name, checkExpires)
}

func open(ctx context.Context, js jetstream.JetStream, name string, check func(jetstream.StreamConfig) error) (*Bucket, error) {
	b := &Bucket{js: js}
	err := checkServer(js.Conn())
	if err != nil {
		return nil, err
	}
	if b.entries, err = js.KeyValue(ctx, name); err == nil {
		b.stream, err = js.Stream(ctx, StreamName(name))
	}
	if err == nil {
		err = check(b.stream.CachedInfo().Config)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = jetstream.ErrBucketNotFound // it was removed a moment ago
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	return b, nil
}

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.entries.Bucket() }

// Stream returns the stream beneath the bucket. Its cached info is as of
// [Open].
func (b *Bucket) Stream() jetstream.Stream { return b.stream }

// Entry is an entry of a bucket.
type Entry struct {
	Key      string // a part of a longer string
	Value    []byte
	Deleted  bool
	Revision uint64 // 0 if there is none
	Created  time.Time
}

// Exists reports whether the key has a value.
func (e Entry) Exists() bool { return e.Revision > 0 && !e.Deleted }

// isDeletion reports whether a message marks that a key was deleted, or
// expired.
func isDeletion(h nats.Header) bool {
	return len(h) > 0 && (h.Get("KV-Operation") != "" || h.Get(jetstream.MarkerReasonHeader) != "")
}

// Get reads a key from the leader of the bucket's stream: lagging replicas do
// not answer. A key without an entry has revision 0. Errors:
// jetstream.ErrBucketNotFound; any other error means that the entry is unknown.
func Get(ctx context.Context, js jetstream.JetStream, bucket, key string) (Entry, error) {
	m, err := streamread.Last(ctx, js, StreamName(bucket), "$KV."+bucket+"."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Entry{Key: key}, nil
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = jetstream.ErrBucketNotFound
	}
	return Entry{key, m.Data, isDeletion(m.Header), m.Sequence, m.Time}, keyError(bucket, key, err)
}

// Get reads a key, see the function [Get].
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	return Get(ctx, b.js, b.Name(), key)
}

// Peek reads a key from any replica, even while the stream has no leader. The
// entry may be outdated. A deleted entry has revision 0.
func (b *Bucket) Peek(ctx context.Context, key string) (Entry, error) {
	e, err := b.entries.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Entry{Key: key}, nil
	}
	if err != nil {
		return Entry{}, keyError(b.Name(), key, err)
	}
	return Entry{key, e.Value(), false, e.Revision(), e.Created()}, nil
}

// Update writes a key if its entry, or its deletion marker, has that revision,
// 0 for none, and returns the new revision. After
// jetstream.ErrKeyRevisionMismatch nothing was written, unless nats.go sent the
// message twice; after any other error the outcome is unknown.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	revision, err := b.entries.Update(ctx, key, value, revision)
	if err != nil {
		return revision, keyError(b.Name(), key, err)
	}
	return revision, nil
}

// Delete deletes a key if it has that revision. Errors are those of Update.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	return keyError(b.Name(), key, b.entries.Delete(ctx, key, jetstream.LastRevision(revision)))
}

// editPause is the pause after another writer was faster.
const editPause = 20 * time.Millisecond

// Edit replaces the value of a key by the result of change, and returns the new
// revision. It retries while other writers are faster. If change returns nil or
// an error, nothing is written, and the revision is 0. After any other error
// the outcome is unknown; another Edit finds out.
func (b *Bucket) Edit(ctx context.Context, key string, change func(Entry) ([]byte, error)) (uint64, error) {
	for {
		e, err := b.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		value, err := change(e)
		if value == nil || err != nil {
			return 0, err
		}
		revision, err := b.Update(ctx, key, value, e.Revision)
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return revision, err
		}
		pause.For(ctx, editPause)
	}
}

// keyError adds the bucket and the key to err; nil stays nil.
func keyError(bucket, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bucket %s, key %s: %w", bucket, key, err)
}
