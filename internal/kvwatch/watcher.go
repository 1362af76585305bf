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
//   - To find the latest entry of each key takes the server longer than the client waits, if
//     there are a million keys. So all entries are asked for, in order: these are the same,
//     since our buckets have a history of 1, and otherwise the latest comes last.
//
// A [Feed] reads a bucket in the same order, and ends where a Watcher would begin again.
package kvwatch

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrEnded says that the watch broke off, for instance because the connection was closed.
var ErrEnded = errors.New("watch of the bucket ended")

// Watcher watches all keys of a bucket. It is for use by one goroutine.
type Watcher struct {
	updates <-chan jetstream.KeyValueEntry
	cancel  context.CancelFunc
	silence *time.Timer
	listed  bool // the existing entries have been read, so that silence is no wonder
}

// listSilence is how long the server may send nothing while there are existing entries to be
// read. It is the only limit to how long these take.
const listSilence = 15 * time.Second

// Open starts to watch all keys of kv. It waits for the server no longer than the
// JetStream context's default timeout, 5 seconds.
func Open(ctx context.Context, kv jetstream.KeyValue) (*Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w, err := kv.WatchAll(own, jetstream.IncludeHistory())
	if err != nil {
		cancel()
		return nil, err
	}
	return &Watcher{updates: w.Updates(), cancel: cancel, silence: time.NewTimer(listSilence)}, nil
}

// Next returns the next entry: the latest entry of each key, then nil, once, and from then
// on every change. Deleted keys appear too, with the operation that deleted them. The
// error is ErrEnded, also if the server falls silent before the nil, or ctx.Err() when ctx ends.
//
// While others write, keys may be missing before the nil; they come after it.
func (w *Watcher) Next(ctx context.Context) (jetstream.KeyValueEntry, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.silence.C:
		return nil, ErrEnded
	case entry, open := <-w.updates:
		if !open {
			return nil, ErrEnded
		}
		w.listening(entry)
		return entry, nil
	}
}

// listening goes on to wait after an entry: for the rest of the existing entries, or for ever.
func (w *Watcher) listening(entry jetstream.KeyValueEntry) {
	if entry == nil {
		w.listed = true
	}
	if w.listed {
		w.silence.Stop()
	} else {
		w.silence.Reset(listSilence)
	}
}

// Close ends the watch and returns when its goroutines have ended.
func (w *Watcher) Close() {
	w.cancel()
	w.silence.Stop()
	for range w.updates {
	}
}
