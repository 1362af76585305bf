package ledger

import (
	"errors"
	"fmt"
)

// ErrLost is wrapped by every [LostError].
var ErrLost = errors.New("the ledger is lost")

// LostError says that what the ledger knew is gone. Nothing is granted until somebody decides
// from where on the store may go on counting.
type LostError struct {
	Bucket string // that of the ledger
	Tag    string // the tag whose entry was deleted; empty if all of the ledger is lost
	Reason string

	Config, Key string // the bucket and the key that say that the ledger was complete
}

func (e *LostError) Error() string {
	if e.Tag != "" {
		return fmt.Sprintf("%v for tag %s: bucket %s: %s", ErrLost, e.Tag, e.Bucket, e.Reason)
	}
	return fmt.Sprintf("%v: bucket %s: %s; bucket %s says that it was complete", ErrLost, e.Bucket, e.Reason, e.Config)
}

// Unwrap makes it an [ErrLost].
func (e *LostError) Unwrap() error { return ErrLost }

// errBelow says that a range lies below what was granted already.
var errBelow = errors.New("the range lies below what was granted already")

// errStale says that an entry had another revision, and so nothing was written.
var errStale = errors.New("the entry has another revision")

// errNone says that there is no ledger, and never was one.
var errNone = errors.New("there is no ledger yet")
