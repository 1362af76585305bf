package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
)

// Raise implements [store.Store]. A malformed tag is ErrBadTag.
//
// A counter that is high enough already is written again as it is: the condition of the write
// proves that what was read is what the leader has.
func (s *Store) Raise(ctx context.Context, tag string, next int64) error {
	if next < 1 {
		return fmt.Errorf("%w: first ID %d, allowed is 1 or more", store.ErrBadTag, next)
	}
	return s.updateCounter(ctx, tag, func(c counter) (counter, error) {
		return counter{MaxID: max(c.MaxID, next), Step: c.Step}, nil
	})
}

// RaiseRemoved implements [store.Remembering]. A malformed tag is ErrBadTag.
func (s *Store) RaiseRemoved(ctx context.Context, tag string, next int64) error {
	if err := checkName(tag); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		found, err := s.readLeader(ctx, tag)
		if errors.Is(err, natsjs.ErrKeyNotFound) || err == nil && found.deleted {
			err = store.ErrNoTag
		}
		if err != nil {
			return s.keyError(tag, err)
		}
		c, err := decodeCounter(found.value)
		if err == nil && !c.Removed {
			err = store.ErrNoTag
		}
		if err != nil || c.MaxID >= next {
			return s.keyError(tag, err)
		}
		c.MaxID = next
		_, err = s.register().Write(ctx, tag, c.encode(), found.revision)
		if !errors.Is(err, natsjs.ErrKeyRevisionMismatch) {
			return s.keyError(tag, err)
		}
		if err := backOff(ctx, attempt); err != nil {
			return s.keyError(tag, err)
		}
	}
}

// RemoveTag implements [store.Store]. A malformed tag is ErrBadTag, and a counter that cannot
// be read is ErrCorrupt. After a lost answer a second call may find that the first one removed
// the tag, hence ErrNoTag.
//
// The key stays, as a tombstone that holds the counter. CreateTag reads it.
func (s *Store) RemoveTag(ctx context.Context, tag string) error {
	return s.updateCounter(ctx, tag, func(c counter) (counter, error) {
		return counter{MaxID: c.MaxID, Step: c.Step, Removed: true}, nil
	})
}
