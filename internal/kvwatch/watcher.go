// Package kvwatch reads the entries of a JetStream KV bucket, first the existing ones and
// then every change. It avoids the traps of nats.go's watcher (v1.55.0):
//
//   - If a context ends while the watcher is being created, the watcher's channel stays
//     open for ever. So the watcher gets a context of its own.
//   - A closed channel yields nil, which also means that all existing entries have been
//     delivered. So the two are told apart.
//   - A watcher that is abandoned with entries in its channel blocks its goroutine. So
//     Close drains the channel.
//   - Stop waits for a server that may be away. So the watcher is cancelled instead.
package kvwatch

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrEnded says that the watch broke off, for instance because the connection was closed.
var ErrEnded = errors.New("watch of the bucket ended")

// Watcher watches all keys of a bucket. It is for use by one goroutine.
type Watcher struct {
	updates <-chan jetstream.KeyValueEntry
	cancel  context.CancelFunc
}

// Open starts to watch all keys of kv. It waits for the server no longer than the
// JetStream context's default timeout, 5 seconds.
func Open(ctx context.Context, kv jetstream.KeyValue) (*Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w, err := kv.WatchAll(own)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Watcher{w.Updates(), cancel}, nil
}

// Next returns the next entry: the latest entry of each key, then nil, once, and from then
// on every change. Deleted keys appear too, with the operation that deleted them. The
// error is ErrEnded, or ctx.Err() when ctx ends.
//
// While others write, keys may be missing before the nil; they come after it.
func (w *Watcher) Next(ctx context.Context) (jetstream.KeyValueEntry, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case entry, open := <-w.updates:
		if !open {
			return nil, ErrEnded
		}
		return entry, nil
	}
}

// Waiting is the number of entries that Next can return without waiting.
func (w *Watcher) Waiting() int { return len(w.updates) }

// Close ends the watch and returns when its goroutines have ended.
func (w *Watcher) Close() {
	w.cancel()
	for range w.updates {
	}
}
