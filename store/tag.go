package store

import "fmt"

// Tag is what a store keeps for one ID sequence.
//
// The bounds below are those of a tag that can be served. A list shows what is there:
// a row that was inserted by hand may break them, or have a name that is no tag.
// Check, and messages.CheckTag, tell.
type Tag struct {
	Name string

	// Step is the configured number of IDs per segment, at least 1. Workers
	// grow it in memory under load and never go below it.
	Step int64

	// Next is the first ID that is not handed out yet, at least 1 (Leaf's
	// max_id). In CreateTag it is the first ID the tag will have.
	Next int64
}

// Check returns an error that wraps ErrBadTag if a field is out of bounds. The
// name is not looked at: how tags are written is the wire contract's matter.
func (t Tag) Check() error {
	if t.Step < 1 {
		return fmt.Errorf("%w: step %d, allowed is 1 or more", ErrBadTag, t.Step)
	}
	if t.Next < 1 {
		return fmt.Errorf("%w: first ID %d, allowed is 1 or more", ErrBadTag, t.Next)
	}
	return nil
}
