package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/register"
)

// When the ledger is looked at again.
const (
	keepPause  = time.Minute
	retryPause = 2 * time.Second
)

// Keep fills the ledger from the store as long as it is not marked as complete, until ctx
// ends. Somebody who removes the mark has it filled again.
func (s *Store) Keep(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		n, err := s.Fill(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			s.log.Error("the ledger is not complete", zap.Error(err))
		case err == nil && n > 0:
			s.log.Info("the ledger is complete: it was filled from the store", zap.Int("tags", n))
		}
		if failing = err != nil; failing {
			pause.For(ctx, retryPause)
		} else {
			pause.For(ctx, keepPause)
		}
	}
}

// Check makes sure that the ledger can be used: it is safe, and the one that the installation
// has, if it has one yet. Errors: a [*LostError], durability.ErrUnsafe.
func (s *Store) Check(ctx context.Context) error {
	bucket, err := s.bound.find(ctx)
	if err == nil {
		err = s.bound.checkIdentity(ctx, bucket)
	}
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

// Fill raises the entry of every tag to what the store has handed out, and then marks the
// ledger as complete, unless it is marked already. It returns how many tags the store had.
func (s *Store) Fill(ctx context.Context) (tags int, err error) {
	bucket, err := s.bound.open(ctx)
	if errors.Is(err, errNone) { // it was lost, and somebody has removed the mark
		if err = s.bound.create(ctx); err == nil {
			bucket, err = s.bound.open(ctx)
		}
	}
	if err != nil {
		return 0, err
	}
	if _, complete, err := s.bound.completeAs(ctx); err != nil {
		return 0, err
	} else if complete {
		return 0, s.bound.checkIdentity(ctx, bucket)
	}
	identity, err := s.bound.identify(ctx, bucket, "")
	if err != nil {
		return 0, err
	}
	if tags, err = s.copyTags(ctx, bucket); err != nil {
		return 0, err
	}
	agreed, err := agreement.Open(ctx, s.bound.js, s.bound.prefix)
	if err != nil {
		return 0, err
	}
	if have, err := agreed.Agree(ctx, ConfigKey, identity); err != nil || have != identity {
		return 0, errors.Join(err, s.bound.checkIdentity(ctx, bucket))
	}
	return tags, nil
}

// copyTags raises every entry to what the store has handed out. A row that cannot be read can
// hand out nothing, so it does not keep the ledger from being complete.
func (s *Store) copyTags(ctx context.Context, bucket *register.Bucket) (n int, err error) {
	tags, err := s.Tags(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return 0, fmt.Errorf("list the store: %w", err)
	}
	have, err := list(ctx, bucket)
	if err != nil {
		return 0, fmt.Errorf("list the ledger: %w", err)
	}
	return len(tags), together(ctx, tags, func(t store.Tag) error {
		if canBeServed(t) && have[t.Name] < t.Next {
			return s.bound.raise(ctx, t.Name, t.Next)
		}
		return nil
	})
}

func canBeServed(t store.Tag) bool { return messages.CheckTag(t.Name) == nil && t.Next >= 1 }

// list returns the entries that there are. One that is old or missing only costs another look.
func list(ctx context.Context, bucket *register.Bucket) (map[string]int64, error) {
	w, err := kvwatch.OpenLarge(ctx, bucket.JS.Conn(), bucket.KV)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	have := make(map[string]int64)
	for {
		entry, err := w.Next(ctx)
		if err != nil || entry == nil {
			return have, err
		}
		if high, err := decode(entry.Value()); err == nil {
			have[entry.Key()] = high
		}
	}
}

// writers is how many entries are written at once.
const writers = 64

// together calls do for all tags, several at a time, and returns the first error.
func together(ctx context.Context, tags []store.Tag, do func(store.Tag) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan store.Tag)
	var group sync.WaitGroup
	for range min(writers, len(tags)) {
		group.Go(func() {
			for t := range next {
				if err := do(t); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, t := range tags {
		select {
		case next <- t:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}
