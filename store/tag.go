package store

import (
	"fmt"
	"time"
)

// Tag is a store's data about a sequence of IDs.
//
// The bounds below are those of a tag that can be served. Store.Tags lists tags
// unchecked: a row inserted by hand may be out of bounds, or have a name that
// is not a tag. Check and messages.CheckTag detect both.
type Tag struct {
	Name string

	// Step is the configured number of IDs per segment, at least 1. Under load
	// workers use larger steps, never smaller.
	Step int64

	// Next is the first ID not yet issued, at least 1 (Leaf's max_id). For
	// CreateTag it is the first ID of the tag.
	Next int64

	// Order is chosen when the tag is created, and never changes: the name
	// keeps it even after the tag is removed. When a tag is created, "" means
	// Trend.
	Order Order

	// Earliest, for CreateTag and ReserveFirst, is a time before which the name
	// was not used, or NeverUsed; zero if unknown. A raise of all tags before
	// that time does not make the tag begin higher.
	Earliest time.Time
}

// NeverUsed is the Tag.Earliest of a name under which nothing was ever issued.
var NeverUsed = time.Unix(1<<40, 0).UTC()

// Order is the order in which the IDs of a tag are issued.
type Order string

// Orders of a tag.
const (
	Trend Order = "trend" // each worker's IDs ascend
	// Each ID is above all whose replies came before its request.
	Strict Order = "strict"
)

// Check returns an error that wraps ErrBadTag unless the order is Trend, Strict
// or "".
func (o Order) Check() error {
	if o != "" && o != Trend && o != Strict {
		return fmt.Errorf("%w: order %q, allowed are %s and %s", ErrBadTag, string(o), Trend, Strict)
	}
	return nil
}

// Check returns an error that wraps ErrBadTag if a field is out of bounds. It
// ignores the name: the wire contract defines the syntax of tags.
func (t Tag) Check() error {
	if t.Step < 1 {
		return fmt.Errorf("%w: step %d, allowed is 1 or more", ErrBadTag, t.Step)
	}
	if t.Next < 1 {
		return fmt.Errorf("%w: first ID %d, allowed is 1 or more", ErrBadTag, t.Next)
	}
	return t.Order.Check()
}
