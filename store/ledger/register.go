package ledger

import (
	"context"
	"time"

	"github.com/idworker/idworker/store"
)

// Watch implements [store.Register]. The marks of others are remembered here, too, so that a
// reservation seldom has to read.
func (s *Store) Watch(ctx context.Context, see func(store.Mark), current func()) error {
	bucket, err := s.bound.find(ctx)
	if err != nil {
		return err
	}
	return bucket.Watch(ctx, func(m store.Mark) {
		s.overhear(m)
		see(m)
	}, current)
}

// overhear remembers a mark that is newer than the one that is known.
func (s *Store) overhear(m store.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.End > 0 && m.Revision > s.known[m.Tag].revision {
		s.known[m.Tag] = mark{m.End, m.Revision}
	}
}

// Mark implements [store.Register].
func (s *Store) Mark(ctx context.Context, tag string) (store.Mark, error) {
	bucket, err := s.bound.find(ctx)
	if err != nil {
		return store.Mark{}, err
	}
	return bucket.Mark(ctx, tag)
}

// Position implements [store.Register].
func (s *Store) Position(ctx context.Context) (latest uint64, made time.Time, err error) {
	bucket, err := s.bound.find(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	return bucket.Position(ctx)
}

// Restore implements [store.Register]. The tag need not be in the store.
func (s *Store) Restore(ctx context.Context, mark store.Mark) error {
	return s.bound.raise(ctx, mark.Tag, mark.End)
}

// Restored implements [store.Register]: the bucket is again the one that the installation has.
// What the store knows is added first, because a tag that nobody was granted anything of
// while the register was watched is in nobody's memory.
func (s *Store) Restored(ctx context.Context) error {
	bucket, err := s.bound.find(ctx)
	if err != nil {
		return err
	}
	identity, complete, err := s.bound.completeAs(ctx)
	if err != nil || !complete {
		return err
	}
	if _, err := s.copyTags(ctx, bucket); err != nil {
		return err
	}
	if _, err := s.bound.identify(ctx, bucket, identity); err != nil {
		return err
	}
	return s.bound.checkIdentity(ctx, bucket)
}
