package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Store counts in the bucket <prefix>_segments. It holds no state and no goroutine
// of its own, so there is nothing to close; the connection stays the caller's.
//
// A call whose context has no deadline still gives up, each time NATS does not
// answer within the JetStream context's default timeout (5 seconds); Tags does not.
type Store struct {
	js     natsjs.JetStream
	bucket string
	kv     natsjs.KeyValue
	stream natsjs.Stream // the bucket's stream, for what a KV does not tell
}

var _ store.Store = (*Store)(nil)

// Reserve implements [store.Store]. It reads and writes once if nobody else
// reserves for the tag at that moment, and again until it wins or ctx ends if
// somebody does. A malformed tag is ErrBadTag.
func (s *Store) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	if step < 1 {
		return store.Segment{}, fmt.Errorf("%w: step %d, allowed is 1 or more", store.ErrBadTag, step)
	}
	var seg store.Segment
	err := s.change(ctx, tag, func(c counter) (counter, error) {
		var err error
		seg, err = store.Following(c.MaxID, step)
		return counter{MaxID: seg.End, Step: c.Step}, err
	})
	if err != nil {
		return store.Segment{}, err
	}
	return seg, nil
}

// SetStep implements [store.Store]. A malformed tag is ErrBadTag.
func (s *Store) SetStep(ctx context.Context, tag string, step int64) error {
	if step < 1 {
		return fmt.Errorf("%w: step %d, allowed is 1 or more", store.ErrBadTag, step)
	}
	// The write is conditional, as it is in Reserve: max_id is carried along, and
	// must not be an old one.
	return s.change(ctx, tag, func(c counter) (counter, error) {
		return counter{MaxID: c.MaxID, Step: step}, nil
	})
}

// change replaces the counter of a tag by what next makes of it, provided that
// nobody else changed it meanwhile; then it starts over. An error of next ends it
// with nothing changed. After any other error the outcome is unknown.
func (s *Store) change(ctx context.Context, tag string, next func(counter) (counter, error)) error {
	if err := checkName(tag); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		old, revision, err := s.read(ctx, tag)
		if err != nil {
			return err
		}
		changed, err := next(old)
		if err != nil {
			return s.keyError(tag, err)
		}
		_, err = s.kv.Update(ctx, tag, changed.encode(), revision)
		// Only this one error says for certain that nothing was written.
		if !errors.Is(err, natsjs.ErrKeyRevisionMismatch) {
			return s.keyError(tag, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return s.keyError(tag, err)
		}
	}
}

// CreateTag implements [store.Store]. A malformed name is ErrBadTag. After a lost
// answer a second call may find the tag of the first, hence ErrTagExists.
func (s *Store) CreateTag(ctx context.Context, tag store.Tag) error {
	if err := checkName(tag.Name); err != nil {
		return err
	}
	if err := tag.Check(); err != nil {
		return err
	}
	value := counter{MaxID: tag.Next, Step: tag.Step}.encode()
	// kv.Create does this too, but once only, with a read that may be old, and with
	// errors that differ between one replica and three.
	revision := uint64(0) // no such key
	for attempt := 0; ; attempt++ {
		_, err := s.kv.Update(ctx, tag.Name, value, revision)
		if !errors.Is(err, natsjs.ErrKeyRevisionMismatch) {
			return s.keyError(tag.Name, err)
		}
		found, err := s.readLeader(ctx, tag.Name)
		switch {
		case errors.Is(err, natsjs.ErrKeyNotFound):
			revision = 0
		case err != nil:
			return s.keyError(tag.Name, err)
		case !found.deleted:
			return s.keyError(tag.Name, store.ErrTagExists)
		case tag.Next == 1: // surely not meant
			return s.keyError(tag.Name, fmt.Errorf("%w: it was deleted, and would hand out the same IDs again; its first ID has to lie above all in use", store.ErrBadTag))
		default:
			revision = found.revision
		}
		if err := pause(ctx, attempt); err != nil {
			return s.keyError(tag.Name, err)
		}
	}
}

// read returns the counter of a tag and the revision at which it was found. Both
// may be old. ErrNoTag is not: there, no conditional write puts things right, so
// before that is said the leader is asked.
func (s *Store) read(ctx context.Context, tag string) (counter, uint64, error) {
	entry, err := s.kv.Get(ctx, tag)
	if err == nil {
		c, err := decode(entry.Value())
		return c, entry.Revision(), s.keyError(tag, err)
	}
	if !errors.Is(err, natsjs.ErrKeyNotFound) {
		return counter{}, 0, s.keyError(tag, err)
	}
	found, err := s.readLeader(ctx, tag)
	if errors.Is(err, natsjs.ErrKeyNotFound) || err == nil && found.deleted {
		return counter{}, 0, s.keyError(tag, store.ErrNoTag)
	}
	if err != nil {
		return counter{}, 0, s.keyError(tag, err)
	}
	c, err := decode(found.value)
	return c, found.revision, s.keyError(tag, err)
}

// keyError says in which bucket and at which key err happened; nil stays nil.
func (s *Store) keyError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bucket %s, key %s: %w", s.bucket, key, err)
}

// checkName refuses names that would be no key or more than one.
func checkName(tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	return nil
}
