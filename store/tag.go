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

	// Order is decided when the tag is created, and never changes: a name keeps it, also
	// after the tag was removed. Where a tag is created, "" counts as Trend.
	Order Order
}

// Order is how the IDs of a tag follow each other.
type Order string

// Orders of a tag.
const (
	Trend  Order = "trend"  // each worker's IDs ascend
	Strict Order = "strict" // each ID is above all whose replies came before its request
)

// Check returns an error that wraps ErrBadTag unless the order is Trend, Strict or "".
func (o Order) Check() error {
	if o != "" && o != Trend && o != Strict {
		return fmt.Errorf("%w: order %q, allowed are %s and %s", ErrBadTag, string(o), Trend, Strict)
	}
	return nil
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
	return t.Order.Check()
}
