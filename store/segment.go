package store

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Segment is the half-open range of IDs [First, End).
//
// 1 ≤ First < End ≤ 2^63−1. The last ID of a tag is therefore 2^63−2: End, like
// Leaf's max_id, is the first number not yet issued, and has to fit an int64
// too.
type Segment struct {
	First int64
	End   int64
}

// Len is the number of IDs in the segment.
func (s Segment) Len() int64 { return s.End - s.First }

// Valid reports whether the segment lies within the bounds above.
func (s Segment) Valid() bool { return s.First >= 1 && s.First < s.End }

// String formats the segment as a half-open range, such as [1, 1001).
func (s Segment) String() string { return fmt.Sprintf("[%d, %d)", s.First, s.End) }

// Cut splits the segment after its first n IDs, or at its end if it has fewer;
// n is not negative.
func (s Segment) Cut(n int64) (head, tail Segment) {
	at := s.First + min(n, s.Len())
	return Segment{s.First, at}, Segment{at, s.End}
}

// Beyond returns next + by, at most the largest int64.
func Beyond(next, by int64) int64 {
	return next + min(by, math.MaxInt64-next)
}

// Left is the number of IDs from next on.
func Left(next int64) int64 { return math.MaxInt64 - next }

// Following returns the segment of step IDs from next, or an error that wraps
// ErrExhausted if they do not fit below 2^63. Backends that compute in Go use
// it, so the bound is defined once.
func Following(next, step int64) (Segment, error) {
	if step > math.MaxInt64-next {
		return Segment{}, fmt.Errorf("%w: %d IDs from %d would pass 2^63", ErrExhausted, step, next)
	}
	return Segment{next, next + step}, nil
}

// Want is the number of IDs that one load wants of a tag.
type Want struct {
	Step    int64 // of a trend tag; 0: the tag's configured step
	Waiting int64 // IDs that requests wait for
	Most    int64 // that the load may get, at least 1

	// TrendOnly is how many of Waiting are for requests that a strict tag refuses,
	// such as those of prefetchers. A worker sends them because it has not learned
	// the tag's order yet. A strict tag reserves nothing for them.
	TrendOnly int64

	// Claim is the worker's about the register and the tag; zero from version
	// 0.2.0.
	Claim Claim
}

// Size is the number of IDs to reserve. A strict tag gets only the IDs that
// requests wait for, because workers buffer none of its IDs. A trend tag gets
// the step, or the IDs that requests wait for if that is more.
func (w Want) Size(o Order, configured int64) int64 {
	size := w.Waiting
	if o == Strict {
		size -= w.TrendOnly
	} else {
		size = max(size, cmp.Or(w.Step, configured))
	}
	return min(max(1, size), w.Most)
}

// Admit returns ErrStrict if a tag of that order has nothing to reserve for one of
// the wants.
func (o Order) Admit(wants []Want) error {
	for _, w := range wants {
		if o == Strict && w.TrendOnly > 0 && w.TrendOnly == w.Waiting {
			return ErrStrict
		}
	}
	return nil
}

// Total is the number of IDs that wants reserve together, at most the largest
// int64.
func Total(wants []Want, o Order, configured int64) (n int64) {
	for _, w := range wants {
		n = Beyond(n, w.Size(o, configured))
	}
	return n
}

// Line says where in the history of a register a range was reserved. After an
// operator has decided that a register may have lost grants, ranges from before
// that decision may be others' as well.
type Line struct {
	// Floor is the lowest first ID of new tags under the latest decision that
	// the loader had adopted, 1 or more; 0 if unknown. Each decision raises it.
	Floor int64

	// Sequence is that of the write in the register's stream; 0 if unknown.
	Sequence uint64
}

// Reservation is a call's result: the order and the configured step of the
// entry that was written, its line, and a part for each want.
//
// The parts have the order of the wants, ascend, and are not empty. Only near
// the end of a trend tag's numbers, the last part may be shorter than wanted,
// and the parts after it may be missing.
type Reservation struct {
	Order Order
	Step  int64
	Line  Line
	Parts []Segment
}

// End is the end of the last part.
func (r Reservation) End() int64 { return r.Parts[len(r.Parts)-1].End }

// Divide reserves numbers of a segment that is free: each want gets a part, the
// first want from the beginning. A strict tag gets all or nothing, because
// workers understand a shorter part as a refusal of a larger request. A trend
// tag gets what fits. The error wraps ErrExhausted or is ErrStrict; then the
// reservation has only the order and the step.
func (s Segment) Divide(o Order, step int64, wants []Want) (Reservation, error) {
	r := Reservation{Order: o, Step: step}
	if err := o.Admit(wants); err != nil {
		return r, err
	}
	rest := s
	for _, w := range wants {
		var part Segment
		size := w.Size(o, step)
		if part, rest = rest.Cut(size); o == Strict && part.Len() < size {
			r.Parts = nil
			break
		} else if part.Len() == 0 {
			break
		}
		r.Parts = append(r.Parts, part)
	}
	if r.Parts == nil {
		return r, fmt.Errorf("%w: %d IDs from %d would pass %d", ErrExhausted, Total(wants, o, step), s.First, s.End)
	}
	return r, nil
}

// Tag is a store's data about a sequence of IDs.
//
// The bounds below are those of a tag that can be served. Store.Tags lists tags
// unchecked: a row inserted by hand may be out of bounds, or have a name that
// is not a tag. Check and messages.CheckTag detect both.
type Tag struct {
	Name string

	// Step is the configured number of IDs per segment, at least 1. Under load,
	// workers take larger segments.
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
