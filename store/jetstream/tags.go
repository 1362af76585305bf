package jetstream

import (
	"context"
	"errors"

	"github.com/idworker/idworker/store"
)

// Tags implements [store.Store]. All values arrive in one stream, without a request per
// tag: 100,000 tags take about a second. [Store.OpenListing] is for those who list again.
//
// Entries that cannot be read do not hide the others: Tags then returns the tags that
// can be read, and an error that wraps ErrCorrupt and names each of the rest.
func (s *Store) Tags(ctx context.Context) ([]store.Tag, error) {
	tags, _, err := s.list(ctx)
	return tags, err
}

// Removed implements [store.Remembering]: the tombstones. What cannot be read is an error of Tags.
func (s *Store) Removed(ctx context.Context) ([]store.Tag, error) {
	_, removed, err := s.list(ctx)
	if errors.Is(err, store.ErrCorrupt) {
		err = nil
	}
	return removed, err
}

func (s *Store) list(ctx context.Context) (tags, removed []store.Tag, err error) {
	l := &listing{store: s}
	defer l.Close()
	return l.list(ctx)
}
