package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/register"
)

// Store keeps the counters of the bucket <prefix>_segments. It has no
// goroutine of its own, so there is nothing to close; the connection stays the caller's.
//
// Even if its context has no deadline, a call fails when NATS does not answer one of its
// requests within the JetStream context's default timeout (5 seconds). Tags has no such
// bound.
type Store struct {
	js     natsjs.JetStream
	bucket string
	kv     natsjs.KeyValue
	stream natsjs.Stream // the bucket's stream, for what the KV API does not offer
	echoes register.Echoes

	prefix messages.Prefix
	agreed atomic.Pointer[agreement.Agreement] // opened when it is first needed
	same   register.Sharing                    // whether it is the bucket of the installation
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Register = (*Store)(nil)
)

// Reserve implements [store.Store]. It reads and writes once if nobody else reserves for
// the tag at that moment; otherwise it tries again until it wins the race or ctx ends. A
// malformed tag is ErrBadTag.
func (s *Store) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	if step < 1 {
		return store.Segment{}, fmt.Errorf("%w: step %d, allowed is 1 or more", store.ErrBadTag, step)
	}
	var seg store.Segment
	err := s.updateCounter(ctx, tag, func(c counter) (counter, error) {
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
	// The write is conditional, as in Reserve: it writes max_id too, which must not be
	// an old one.
	return s.updateCounter(ctx, tag, func(c counter) (counter, error) {
		return counter{MaxID: c.MaxID, Step: step}, nil
	})
}

// updateCounter replaces the counter of a tag by what next makes of it. If somebody else
// changed the counter in the meantime, it starts over. If next returns an error, nothing
// is changed. After any other error the outcome is unknown.
func (s *Store) updateCounter(ctx context.Context, tag string, next func(counter) (counter, error)) error {
	if err := checkName(tag); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		old, revision, err := s.readCounter(ctx, tag)
		if err != nil {
			return err
		}
		changed, err := next(old)
		if err != nil {
			return s.keyError(tag, err)
		}
		_, err = s.register().Write(ctx, tag, changed.encode(), revision)
		// This is the only error after which it is certain that nothing was written.
		if !errors.Is(err, natsjs.ErrKeyRevisionMismatch) {
			return s.keyError(tag, err)
		}
		if err := backOff(ctx, attempt); err != nil {
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
	// kv.Create does this too, but tries only once, may read an old revision, and
	// returns different errors for one replica and for three.
	revision := uint64(0) // no such key
	for attempt := 0; ; attempt++ {
		_, err := s.register().Write(ctx, tag.Name, value, revision)
		if !errors.Is(err, natsjs.ErrKeyRevisionMismatch) {
			return s.keyError(tag.Name, err)
		}
		found, err := s.readLeader(ctx, tag.Name)
		switch {
		case errors.Is(err, natsjs.ErrKeyNotFound):
			revision = 0
		case err != nil:
			return s.keyError(tag.Name, err)
		}
		if err == nil {
			if err := checkSuccessor(found, tag); err != nil {
				return s.keyError(tag.Name, err)
			}
			revision = found.revision
		}
		if err := backOff(ctx, attempt); err != nil {
			return s.keyError(tag.Name, err)
		}
	}
}

// checkSuccessor reports whether a tag may be created where the entry is: over a tombstone not
// below its counter, and over a delete marker, which says nothing, not from 1 on.
func checkSuccessor(found leaderEntry, tag store.Tag) error {
	if found.deleted {
		if tag.Next == 1 { // the default, so surely not meant
			return fmt.Errorf("%w: a tag of this name was deleted, and this one would hand out the same IDs again; its first ID must be above all that are in use", store.ErrBadTag)
		}
		return nil
	}
	c, err := decodeCounter(found.value)
	if err != nil || !c.Removed {
		return store.ErrTagExists
	}
	if tag.Next < c.MaxID {
		return &store.BelowError{Tag: tag.Name, First: tag.Next, Floor: c.MaxID}
	}
	return nil
}

// readCounter returns the counter of a tag and the revision at which it was found. Both
// may be old, because a conditional write follows that would fail. ErrNoTag must not
// rest on an old read, be it of nothing or of a tombstone, because no write follows that
// would correct it; so the leader is asked first.
func (s *Store) readCounter(ctx context.Context, tag string) (counter, uint64, error) {
	entry, err := s.kv.Get(ctx, tag)
	if err == nil {
		c, err := decodeCounter(entry.Value())
		if err != nil || !c.Removed {
			return c, entry.Revision(), s.keyError(tag, err)
		}
	} else if !errors.Is(err, natsjs.ErrKeyNotFound) {
		return counter{}, 0, s.keyError(tag, err)
	}
	found, err := s.readLeader(ctx, tag)
	if errors.Is(err, natsjs.ErrKeyNotFound) || err == nil && found.deleted {
		return counter{}, 0, s.keyError(tag, store.ErrNoTag)
	}
	if err != nil {
		return counter{}, 0, s.keyError(tag, err)
	}
	c, err := decodeCounter(found.value)
	if err == nil && c.Removed {
		err = store.ErrNoTag
	}
	return c, found.revision, s.keyError(tag, err)
}

// keyError adds the bucket and the key to err; nil stays nil.
func (s *Store) keyError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bucket %s, key %s: %w", s.bucket, key, err)
}

// checkName refuses names that are no key, or that match more than one.
func checkName(tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	return nil
}
