package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
)

// The reasons why there is no worker ID. All are wrapped, with details.
var (
	// ErrNoWorkerID: every worker ID is leased, or its time is reserved too far
	// ahead of the clock, or other processes were faster each time. It
	// passes when a process stops, or when the lease and the fence of a dead
	// process have ended: after the TTL, or 15 s if that is longer, or, in the
	// upper half of the worker IDs, after the declared outage.
	ErrNoWorkerID = errors.New("lease: no worker ID is free")

	// ErrHeld: the configured worker ID is leased to another process. It passes
	// when that process stops, or when it is dead and its lease has expired.
	ErrHeld = problem.New(problem.WorkerIDHeld, "lease: worker ID is held")

	// ErrLost: the worker ID was held, and no longer is.
	ErrLost = errors.New("lease: worker ID was lost")

	// ErrClockSkew: the clock is too far from that of the server or the other
	// workers.
	ErrClockSkew = errors.New("lease: clock is off")

	// ErrForeignLayout: the installation uses another layout.
	ErrForeignLayout = problem.New(problem.OtherLayout, "lease: foreign layout")

	// ErrClockLost: the clock bucket is not the installation's, or regressed to
	// an older state. So the issued IDs are unknown.
	ErrClockLost = errors.New("lease: clock bucket was replaced or restored")

	// ErrUnsafeBucket: a bucket's configuration may lose entries that must
	// stay, or keep entries that must expire.
	ErrUnsafeBucket = durability.ErrUnsafe

	// ErrCorrupt: an entry of a bucket cannot be read.
	ErrCorrupt = errors.New("lease: corrupt entry")

	// ErrConfig: a setting is out of bounds.
	ErrConfig = errors.New("lease: bad configuration")
)

// NewEpochError is the [snowflake.ErrEpoch] of an installation that has no layout
// yet: the layout was not recorded.
type NewEpochError struct{ err error }

func (e *NewEpochError) Error() string { return e.err.Error() }

// Unwrap makes it a [snowflake.ErrEpoch].
func (e *NewEpochError) Unwrap() error { return e.err }

// HeldError is an [ErrHeld] with the holder of the worker ID. A field is empty
// if the lease lacks it.
type HeldError struct {
	Datacenter, Worker int64

	Instance, Host string
	Since          time.Time // by its clock

	// Alive means that the holder renewed its lease repeatedly while this
	// process watched. A [Manager] then stops seeking, and Run returns.
	// Otherwise the holder may be dead, and the worker ID is claimed once its
	// lease has expired.
	Alive bool
}

func (e *HeldError) Error() string {
	text := fmt.Sprintf("%v: %d", ErrHeld, e.Worker)
	if e.Datacenter > 0 {
		text = fmt.Sprintf("%s in datacenter %d", text, e.Datacenter)
	}
	holder := "an unknown process"
	if e.Instance != "" {
		holder = fmt.Sprintf("process %.100q on host %.100q since %s", e.Instance, e.Host, e.Since.UTC().Format(time.RFC3339))
	}
	if e.Alive {
		return fmt.Sprintf("%s, by %s, which is alive", text, holder)
	}
	return fmt.Sprintf("%s, by %s, which may be dead", text, holder)
}

// Unwrap makes it an [ErrHeld].
func (e *HeldError) Unwrap() error { return ErrHeld }

// ClockLostError is an [ErrClockLost] of a bucket that is not the
// installation's. The operator's remedy: stop the workers that are cut off, and
// wait for Wait after the loss, so that no issued ID of the lower half lies ahead
// of the clock. Then delete Key from Bucket; the first worker records for how long
// the upper half waits. Workers that are connected may run on, because they object
// to a claim of their worker ID.
type ClockLostError struct {
	// The identities of the present clock bucket and of the installation's:
	// random numbers. Found is empty if the bucket has none.
	Found, Installed string

	Wait   time.Duration // no worker ID may be claimed for longer than this
	Bucket string        // where the installation's is written down
	Key    string        // under which
}

func clockLostError(prefix messages.Prefix, found, installed string, wait time.Duration) error {
	return &ClockLostError{Found: found, Installed: installed, Wait: wait, Bucket: agreement.BucketName(prefix), Key: ClockIDKey}
}

func (e *ClockLostError) Error() string {
	return fmt.Sprintf("%v: its identity is %.100q, expected %.100q", ErrClockLost, e.Found, e.Installed)
}

// Unwrap makes it an [ErrClockLost].
func (e *ClockLostError) Unwrap() error { return ErrClockLost }

// Problem is part of [problem.Problem].
func (e *ClockLostError) Problem() (problem.Kind, []any) {
	return problem.ClockLost, []any{e.Wait, e.Key, e.Bucket}
}

// ClockBackError is an [ErrClockLost] of the installation's bucket: it
// regressed to an older state. A [Manager] that sees it twice in a row records it
// as [Lost]. Then no worker ID is claimed before the recorded time of its half.
type ClockBackError struct {
	Last  uint64 // sequence of the bucket's stream
	Known uint64 // it had been this high
}

func (e *ClockBackError) Error() string {
	return fmt.Sprintf("%v: its stream is at sequence %d, was at %d", ErrClockLost, e.Last, e.Known)
}

// Unwrap makes it an [ErrClockLost].
func (e *ClockBackError) Unwrap() error { return ErrClockLost }
