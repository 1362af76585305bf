package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/idworker/idworker/store"
)

// CreateTag implements [store.Store].
func (s *Store) CreateTag(ctx context.Context, tag store.Tag) error {
	m, err := s.book.read(ctx, tag.Name)
	switch {
	case errors.Is(err, errNone):
		return s.Store.CreateTag(ctx, tag)
	case err != nil:
		return fmt.Errorf("ledger, tag %s: %w", tag.Name, err)
	case m.high > tag.Next && tag.Next >= 1 && tag.Step >= 1:
		return s.refuseBelow(ctx, tag, m.high)
	}
	if err := s.Store.CreateTag(ctx, tag); err != nil {
		return err
	}
	// So that nobody can create it again with a lower first ID, should the store forget it.
	if err := s.bound.raise(ctx, tag.Name, tag.Next); err != nil {
		return fmt.Errorf("tag %s was created, but its first ID could not be written to the ledger: %w", tag.Name, err)
	}
	return nil
}

// refuseBelow refuses a tag that would begin below what was granted. One that exists is just
// that.
func (s *Store) refuseBelow(ctx context.Context, tag store.Tag, high int64) error {
	switch err := s.Store.Raise(ctx, tag.Name, 1); {
	case err == nil:
		return fmt.Errorf("tag %s: %w", tag.Name, store.ErrTagExists)
	case !errors.Is(err, store.ErrNoTag):
		return err
	}
	return &store.BelowError{Tag: tag.Name, First: tag.Next, Floor: high}
}

// Raise implements [store.Store]: the ledger first, then the store, see the package's doc. If the
// ledger is lost, only the store is raised: that is how somebody decides from where on to count.
func (s *Store) Raise(ctx context.Context, tag string, next int64) error {
	if err := s.Store.Raise(ctx, tag, min(next, 1)); err != nil || next <= 1 { // is there such a tag?
		return err
	}
	err := s.bound.raise(ctx, tag, next)
	var lost *LostError
	if err != nil && !errors.Is(err, errNone) && !errors.As(err, &lost) {
		return fmt.Errorf("ledger, tag %s: %w", tag, err)
	}
	return s.Store.Raise(ctx, tag, next)
}

// Removed implements [store.Remembering]: the entries whose tag the store does not have, among
// them those that are being created.
func (s *Store) Removed(ctx context.Context) ([]store.Tag, error) {
	bucket, err := s.bound.find(ctx)
	if errors.Is(err, errNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := list(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("list the ledger: %w", err)
	}
	tags, err := s.Tags(ctx)
	var removed []store.Tag
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	for _, t := range tags {
		delete(entries, t.Name)
	}
	for name, high := range entries {
		removed = append(removed, store.Tag{Name: name, Next: high})
	}
	return removed, nil
}

// RaiseRemoved implements [store.Remembering].
func (s *Store) RaiseRemoved(ctx context.Context, tag string, next int64) error {
	m, err := s.book.read(ctx, tag)
	if err == nil && m.revision == 0 || errors.Is(err, errNone) {
		err = store.ErrNoTag
	}
	if err != nil {
		return fmt.Errorf("ledger, tag %s: %w", tag, err)
	}
	return s.bound.raise(ctx, tag, next)
}

// RemoveTag implements [store.Store]. What the tag handed out is written to the ledger first.
func (s *Store) RemoveTag(ctx context.Context, tag string) error {
	tags, err := s.Tags(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	for _, t := range tags {
		if t.Name != tag || t.Next < 1 {
			continue
		}
		if err := s.bound.raise(ctx, tag, t.Next); err != nil && !errors.Is(err, errNone) {
			return fmt.Errorf("ledger, tag %s: %w", tag, err)
		}
		return s.Store.RemoveTag(ctx, tag)
	}
	if err != nil {
		return err // it may be the one that cannot be read
	}
	return s.Store.RemoveTag(ctx, tag)
}

// OpenListing implements [store.Lister].
func (s *Store) OpenListing(skip func(tag string) bool) store.Listing {
	return store.OpenListing(s.Store, skip)
}

// RaiseList raises each of the tags, as the store lists them, to what was granted of it: a store that
// went back says less. It is for who goes on counting elsewhere.
func (s *Store) RaiseList(ctx context.Context, tags []store.Tag) error {
	if _, err := s.bound.open(ctx); errors.Is(err, errNone) {
		return nil
	}
	var mu sync.Mutex
	highs := make(map[string]int64)
	err := together(ctx, tags, func(t store.Tag) error {
		m, err := s.book.read(ctx, t.Name)
		mu.Lock()
		defer mu.Unlock()
		highs[t.Name] = m.high
		return err
	})
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for i, t := range tags {
		tags[i].Next = max(t.Next, highs[t.Name])
	}
	return nil
}
