package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/internal/durability"
)

// The reasons why there is no worker ID. All are wrapped, with what was found.
var (
	// ErrNoWorkerID: every worker ID is leased, or its time is given away too far
	// ahead of the clock. It passes when a process stops, or when the lease of one
	// that died expires, which takes the TTL.
	ErrNoWorkerID = errors.New("lease: no worker ID is free")

	// ErrLost: the worker ID was held, and no longer is.
	ErrLost = errors.New("lease: worker ID was lost")

	// ErrClockSkew: the clock is too far from that of the server or the other workers.
	ErrClockSkew = errors.New("lease: clock is off")

	// ErrForeignLayout: the installation uses another layout.
	ErrForeignLayout = errors.New("lease: foreign layout")

	// ErrClockLost: the clock bucket is not the one that the installation began
	// with, so nobody knows which IDs have been issued.
	ErrClockLost = errors.New("lease: clock bucket was replaced")

	// ErrUnsafeBucket: a bucket is configured in a way that could make it forget,
	// or not forget, what it should.
	ErrUnsafeBucket = durability.ErrUnsafe

	// ErrCorrupt: an entry of a bucket cannot be read.
	ErrCorrupt = errors.New("lease: corrupt entry")

	// ErrConfig: a setting is out of bounds.
	ErrConfig = errors.New("lease: bad configuration")
)

// ClockLostError is an [ErrClockLost] with what has to be known to go on: once no IDs can be
// in use whose time lies ahead, what was written about the old bucket can be forgotten.
type ClockLostError struct {
	Created, Installed string // when the clock bucket was made, and when the installation's was

	StopFor     time.Duration // all workers have to be stopped for longer than this
	Bucket, Key string        // where the installation's is written down
}

func (e *ClockLostError) Error() string {
	return fmt.Sprintf("%v: it is of %s, the installation's was of %.100q", ErrClockLost, e.Created, e.Installed)
}

// Unwrap makes it an [ErrClockLost].
func (e *ClockLostError) Unwrap() error { return ErrClockLost }
