package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kvwatch"
)

// bucket is what the rest of the package needs of a KV bucket. The tests have
// another one, in which everything goes wrong that can.
type bucket interface {
	// list returns the latest of each key, deleted ones too. While others write, it
	// may miss some. However many there are, it goes on as long as they come; it fails
	// when none has come for callTimeout.
	list(ctx context.Context) ([]record, error)

	// get returns the latest of a key, or an older one, or errAbsent.
	get(ctx context.Context, key string) (record, error)

	// update writes if the key is at that revision, 0 for none, and returns the new
	// one. errConflict says that the key is not; after any other error, and if the
	// message was sent twice after that one too, it may have been written.
	update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)

	// remove deletes if the key is at that revision. Errors are those of update.
	remove(ctx context.Context, key string, revision uint64) error
}

// record is an entry of a bucket.
type record struct {
	key      string
	value    []byte
	revision uint64
	created  time.Time // server time
	deleted  bool      // a marker that says so
}

var (
	errAbsent   = errors.New("no such key")
	errConflict = errors.New("key was changed meanwhile")
)

// kvBucket is a bucket in JetStream.
type kvBucket struct{ kv jetstream.KeyValue }

func (b kvBucket) list(ctx context.Context) ([]record, error) {
	w, err := kvwatch.Open(ctx, b.kv)
	if err != nil {
		return nil, b.keyError(">", err)
	}
	defer w.Close()
	var records []record
	for {
		entry, err := nextEntry(ctx, w)
		if err != nil {
			return nil, b.keyError(">", err)
		}
		if entry == nil {
			return records, nil
		}
		records = append(records, recordOf(entry))
	}
}

// nextEntry waits for an entry no longer than callTimeout.
func nextEntry(ctx context.Context, w *kvwatch.Watcher) (jetstream.KeyValueEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return w.Next(ctx)
}

func (b kvBucket) get(ctx context.Context, key string) (record, error) {
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = errAbsent
	}
	if err != nil {
		return record{}, b.keyError(key, err)
	}
	return recordOf(entry), nil
}

func (b kvBucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	revision, err := b.kv.Update(ctx, key, value, revision)
	return revision, b.keyError(key, conflict(err))
}

func (b kvBucket) remove(ctx context.Context, key string, revision uint64) error {
	return b.keyError(key, conflict(b.kv.Delete(ctx, key, jetstream.LastRevision(revision))))
}

func recordOf(e jetstream.KeyValueEntry) record {
	return record{
		key:      e.Key(),
		value:    e.Value(),
		revision: e.Revision(),
		created:  e.Created(),
		deleted:  e.Operation() != jetstream.KeyValuePut,
	}
}

func conflict(err error) error {
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return errConflict
	}
	return err
}

// keyError says in which bucket and at which key err happened; nil stays nil.
func (b kvBucket) keyError(key string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		err = fmt.Errorf("%w: %w", jetstream.ErrBucketNotFound, err)
	}
	return fmt.Errorf("bucket %s, key %s: %w", b.kv.Bucket(), key, err)
}
