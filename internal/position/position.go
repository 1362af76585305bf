// Package position compares how far a bucket's stream has come with how far it
// was before. The register, its witness and the leases build on this comparison;
// what follows from it is their own decision.
package position

// Position is how far the stream of a bucket has come. A process that has seen
// one detects later that a bucket is another, or older: identities are random,
// and a sequence only rises.
type Position struct {
	ID   string `json:"id,omitempty"` // identity; empty if unknown
	Last uint64 `json:"seen"`         // highest sequence
}

// Relation is how a position that was found relates to one that was known.
type Relation int

// The relations.
const (
	NoEvidence Relation = iota // nothing is known
	Same                       // the bucket, and at least as far
	WentBack                   // the bucket, or one of unknown identity, but not as far
	Another                    // a bucket with another identity, or none
)

// Judge compares a position that was found with one that was known when the
// request for it was sent. A missing stream has the zero position.
func (known Position) Judge(found Position) Relation {
	switch {
	case known == Position{}:
		return NoEvidence
	case known.ID != "" && found.ID != known.ID:
		return Another
	case found.Last < known.Last:
		return WentBack
	}
	return Same
}
