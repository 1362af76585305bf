package store

// Claim is what a process reports about the register. A loader that hears a
// claim checks it against the register itself: a claim proves nothing, and is
// never stored. Claims of different floors belong to different histories of the
// register, so they are compared floor first, then sequence, then entries.
type Claim struct {
	// By is the instance of the process that has seen it.
	By string `json:"by"`

	// Floor is the lowest first ID of new tags under the latest decision that By
	// knows, at least 1.
	Floor int64 `json:"floor"`

	// Sequence is the highest of the register's stream that By has seen under
	// that decision, and Entries the most entries; 0 if it has seen none.
	Sequence uint64 `json:"sequence,omitempty"`
	Entries  uint64 `json:"entries,omitempty"`

	// Next is above all IDs of a tag that By was granted, or has read in its
	// entry. Tag is empty if the claim is about none.
	Tag  string `json:"tag,omitempty"`
	Next int64  `json:"next,omitempty"`

	// Heard means that a loader repeats the claim of By, which has stopped it.
	// Loaders do not repeat it again.
	Heard bool `json:"heard,omitempty"`
}

// IsZero reports whether nothing is claimed.
func (c Claim) IsZero() bool { return c.Floor == 0 }
