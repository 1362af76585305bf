package jetstream

import (
	"context"
	"errors"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/register"
)

// register is the bucket as a register: the counters themselves are the marks. A key that
// somebody deleted by hand stays deleted.
func (s *Store) register() register.Bucket {
	return register.Bucket{
		JS: s.js, KV: s.kv, Stream: s.stream, Echoes: &s.echoes, Deletable: true,
		Decode: func(value []byte) (end, step int64, err error) {
			c, err := decodeCounter(value)
			return c.MaxID, c.Step, err
		},
	}
}

// Watch implements [store.Register].
func (s *Store) Watch(ctx context.Context, see func(store.Mark), current func()) error {
	return s.register().Watch(ctx, see, current)
}

// Mark implements [store.Register].
func (s *Store) Mark(ctx context.Context, tag string) (store.Mark, error) {
	mark, err := s.register().Mark(ctx, tag)
	return mark, s.keyError(tag, err)
}

// Position implements [store.Register].
func (s *Store) Position(ctx context.Context) (latest uint64, made time.Time, err error) {
	return s.register().Position(ctx)
}

// Restore implements [store.Register]. A tag that is gone without a trace is created again; a
// tombstone stays one.
func (s *Store) Restore(ctx context.Context, mark store.Mark) error {
	for {
		err := s.Raise(ctx, mark.Tag, mark.End)
		if !errors.Is(err, store.ErrNoTag) {
			return err
		}
		found, err := s.readLeader(ctx, mark.Tag)
		switch {
		case errors.Is(err, natsjs.ErrKeyNotFound):
			err = s.CreateTag(ctx, store.Tag{Name: mark.Tag, Step: max(1, mark.Step), Next: mark.End})
			if errors.Is(err, store.ErrTagExists) {
				continue
			}
			return err
		case err != nil || found.deleted:
			return s.keyError(mark.Tag, err)
		}
		if err := s.raiseTombstone(ctx, mark, found); !errors.Is(err, natsjs.ErrKeyRevisionMismatch) {
			return s.keyError(mark.Tag, err)
		}
	}
}

// raiseTombstone raises the counter that a tombstone holds.
func (s *Store) raiseTombstone(ctx context.Context, mark store.Mark, found leaderEntry) error {
	c, err := decodeCounter(found.value)
	if err != nil {
		return err
	}
	if !c.Removed || c.MaxID >= mark.End {
		return nil
	}
	c.MaxID = mark.End
	_, err = s.register().Write(ctx, mark.Tag, c.encode(), found.revision)
	return err
}

// Restored implements [store.Register]. There is nothing else to restore.
func (s *Store) Restored(context.Context) error { return nil }
