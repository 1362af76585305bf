package store

import (
	"fmt"
	"math"
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

// Grant is a reserved segment with the order of its tag, as in the entry that
// was written for this grant.
type Grant struct {
	Segment
	Order Order
}

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
