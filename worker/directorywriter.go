package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
)

// directoryWriter writes many entries of the directory at a time. An entry that has changed since it
// was read stays as it is, which is no error.
type directoryWriter struct {
	directory  *Directory
	ctx        context.Context
	fail       context.CancelCauseFunc
	writes     chan func(context.Context) error
	writers    sync.WaitGroup
	started    int
	mismatched atomic.Bool // there was such an entry
}

// maxWriters is how many writes are under way at once. The server syncs one after the other; these
// keep it busy.
const maxWriters = 128

func (d *Directory) newWriter(ctx context.Context) *directoryWriter {
	w := &directoryWriter{directory: d, writes: make(chan func(context.Context) error)}
	w.ctx, w.fail = context.WithCancelCause(ctx)
	return w
}

// put writes a tag, whose entry has that revision, 0 if there is none.
func (w *directoryWriter) put(tag string, step int64, revision uint64) {
	w.write("write", tag, func(ctx context.Context) error {
		value, err := json.Marshal(tagEntry{step})
		if err == nil {
			_, err = w.directory.kv.Update(ctx, tag, value, revision)
		}
		return err
	})
}

// remove deletes a tag, whose entry has that revision.
func (w *directoryWriter) remove(tag string, revision uint64) {
	w.write("remove", tag, func(ctx context.Context) error {
		return w.directory.kv.Delete(ctx, tag, jetstream.LastRevision(revision))
	})
}

// write has one of the writers do it, as soon as one is free.
func (w *directoryWriter) write(what, tag string, do func(context.Context) error) {
	if w.started < maxWriters {
		w.started++
		w.writers.Go(w.run)
	}
	one := func(ctx context.Context) error {
		switch err := do(ctx); {
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			w.mismatched.Store(true)
		case err != nil:
			return fmt.Errorf("%s tag %s in the directory: %w", what, tag, err)
		}
		return nil
	}
	select {
	case w.writes <- one:
	case <-w.ctx.Done():
	}
}

func (w *directoryWriter) run() {
	for write := range w.writes {
		if err := write(w.ctx); err != nil {
			w.fail(err)
		}
	}
}

// wait returns when all has been written, or the first error.
func (w *directoryWriter) wait() error {
	close(w.writes)
	w.writers.Wait()
	err := context.Cause(w.ctx)
	w.fail(nil)
	return err
}
