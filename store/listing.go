package store

import "context"

// Lister is a store that can list its tags again and again without reading all of them each time.
type Lister interface {
	// OpenListing opens a listing without the tags for which skip is true, as far as it may leave
	// them out of memory. Skip, which may be nil, is called from Tags, and may only ever turn true.
	OpenListing(skip func(tag string) bool) Listing
}

// Listing lists the tags of a store. It is for use by one goroutine.
type Listing interface {
	// Tags is that of [Store].
	Tags(ctx context.Context) ([]Tag, error)

	// Close lets go of what the listing holds.
	Close()
}

// OpenListing opens a listing of any store. What is to be skipped may be listed all the same.
func OpenListing(s Store, skip func(tag string) bool) Listing {
	if l, ok := s.(Lister); ok {
		return l.OpenListing(skip)
	}
	return plainListing{s}
}

// plainListing reads all tags each time.
type plainListing struct{ Store }

func (plainListing) Close() {}
