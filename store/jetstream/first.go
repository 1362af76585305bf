package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
)

// ReserveFirst implements [store.Store]. It writes once if there was never such a key. The condition
// of the write is that there is none, so of all who make a tag at once one succeeds. Over a tombstone
// it counts on from there. A delete marker says that there was such a tag, and not how far it counted: over
// one nothing is made by itself.
func (s *Store) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	if err := errors.Join(checkName(tag.Name), tag.Check()); err != nil {
		return store.Segment{}, err
	}
	if n < 1 {
		return store.Segment{}, fmt.Errorf("%w: step %d, allowed is 1 or more", store.ErrBadTag, n)
	}
	if err := s.CheckSame(ctx); err != nil {
		return store.Segment{}, s.keyError(tag.Name, err)
	}
	next, revision := tag.Next, uint64(0)
	for attempt := 0; ; attempt++ {
		seg, err := store.Following(next, n)
		if err != nil {
			return store.Segment{}, s.keyError(tag.Name, err)
		}
		_, err = s.register().Write(ctx, tag.Name, counter{MaxID: seg.End, Step: tag.Step}.encode(), revision)
		if err == nil {
			return seg, nil
		}
		if errors.Is(err, natsjs.ErrKeyRevisionMismatch) {
			next, revision, err = s.successor(ctx, tag)
		}
		if err == nil {
			err = backOff(ctx, attempt)
		}
		if err != nil {
			return store.Segment{}, s.keyError(tag.Name, err)
		}
	}
}

// successor returns from where on a tag may count in the place of what is in the bucket, and at which
// revision that is.
func (s *Store) successor(ctx context.Context, tag store.Tag) (next int64, revision uint64, err error) {
	found, err := s.readLeader(ctx, tag.Name)
	if errors.Is(err, natsjs.ErrKeyNotFound) {
		return tag.Next, 0, nil
	}
	if err == nil && found.deleted {
		tag.Next = 1 // wherever it is to begin, nobody has looked
	}
	if err == nil {
		err = checkSuccessor(found, tag)
	}
	var below *store.BelowError
	if errors.As(err, &below) {
		return below.Floor, found.revision, nil
	}
	return tag.Next, found.revision, err
}
