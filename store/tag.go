package store

import "fmt"

// Tag is what a store keeps for one sequence of IDs.
//
// The bounds below are those of a tag that can be served. Store.Tags lists what is
// there: a row that was inserted by hand may be out of bounds, or have a name that is
// not a tag. Check and messages.CheckTag find that out.
type Tag struct {
	Name string

	// Step is the configured number of IDs per segment, at least 1. Under load workers
	// raise it in memory, and never go below it.
	Step int64

	// Next is the first ID that is not handed out yet, at least 1 (Leaf's max_id). For
	// CreateTag it is the first ID the tag will have.
	Next int64
}

// Check returns an error that wraps ErrBadTag if a field is out of bounds. It does not
// look at the name: how tags are written is up to the wire contract.
func (t Tag) Check() error {
	if t.Step < 1 {
		return fmt.Errorf("%w: step %d, allowed is 1 or more", ErrBadTag, t.Step)
	}
	if t.Next < 1 {
		return fmt.Errorf("%w: first ID %d, allowed is 1 or more", ErrBadTag, t.Next)
	}
	return nil
}
