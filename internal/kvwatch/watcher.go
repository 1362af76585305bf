// Package kvwatch reads the entries of a JetStream KV bucket, those there are and
// then every change, without the traps of nats.go's watcher (v1.55.0):
//
//   - a context that ends while the watcher is being made leaves its channel open
//     for ever, so it gets a context of its own;
//   - a closed channel yields nil, which also says that all entries have been told;
//   - one that is given up with entries in its channel blocks its goroutine, so they
//     are taken out;
//   - Stop waits for a server that may be away, so it is cancelled instead.
package kvwatch

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrEnded is the error of a watch that broke off, as when the connection is closed.
var ErrEnded = errors.New("watch of the bucket ended")

// Watcher watches all keys of a bucket. It is for one goroutine.
type Watcher struct {
	updates <-chan jetstream.KeyValueEntry
	cancel  context.CancelFunc
}

// Open begins to watch. It waits no longer for the server than the JetStream
// context's default timeout, 5 seconds.
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

// Next returns the next entry: the latest of each key, then nil, once, and from then
// on every change. Deleted keys appear too, with the operation that says so. It
// returns an error when ctx ends, or ErrEnded.
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

// Waiting is how many entries can be taken without waiting.
func (w *Watcher) Waiting() int { return len(w.updates) }

// Close ends the watch and returns when nothing of it is left.
func (w *Watcher) Close() {
	w.cancel()
	for range w.updates {
	}
}
