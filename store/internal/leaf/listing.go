package leaf

import (
	"context"

	"github.com/idworker/idworker/store"
)

// Listing is a store.Listing that reads the table each time.
type Listing func(ctx context.Context) ([]store.Tag, error)

// Tags implements [store.Listing].
func (l Listing) Tags(ctx context.Context) ([]store.Tag, error) { return l(ctx) }

// Close implements [store.Listing].
func (l Listing) Close() {}

// Skips reports whether a row is left out of a listing.
func Skips(skip func(tag string) bool, bizTag *string) bool {
	return skip != nil && bizTag != nil && skip(*bizTag)
}
