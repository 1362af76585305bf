package store

import "context"

// Lister is a store that can list its tags again and again without reading all of them each time.
type Lister interface{ OpenListing() Listing }

// Listing lists the tags of a store. It is for use by one goroutine.
type Listing interface {
	// Tags is that of [Store].
	Tags(ctx context.Context) ([]Tag, error)

	// Close lets go of what the listing holds.
	Close()
}

// OpenListing opens a listing of any store.
func OpenListing(s Store) Listing {
	if l, ok := s.(Lister); ok {
		return l.OpenListing()
	}
	return plainListing{s}
}

// plainListing reads all tags each time.
type plainListing struct{ Store }

func (plainListing) Close() {}
