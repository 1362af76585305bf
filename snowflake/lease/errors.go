package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/problem"
)

// The reasons why there is no worker ID. All are wrapped, with what was found.
var (
	// ErrNoWorkerID: every worker ID is leased, or its time is given away too far
	// ahead of the clock, or others were faster again and again. It passes when a process stops, or when the lease of one
	// that died has expired and its fence is past: after the TTL, or 15 s if that is longer.
	ErrNoWorkerID = errors.New("lease: no worker ID is free")

	// ErrHeld: the worker ID that was given is leased to another process. It passes when that one
	// stops, or when it is dead and its lease has expired.
	ErrHeld = problem.New(problem.WorkerIDHeld, "lease: worker ID is held")

	// ErrLost: the worker ID was held, and no longer is.
	ErrLost = errors.New("lease: worker ID was lost")

	// ErrClockSkew: the clock is too far from that of the server or the other workers.
	ErrClockSkew = errors.New("lease: clock is off")

	// ErrForeignLayout: the installation uses another layout.
	ErrForeignLayout = errors.New("lease: foreign layout")

	// ErrClockLost: the clock bucket is not the installation's, or went back to an older
	// state, so nobody knows which IDs have been issued.
	ErrClockLost = errors.New("lease: clock bucket was replaced or restored")

	// ErrUnsafeBucket: a bucket is configured in a way that could make it forget,
	// or not forget, what it should.
	ErrUnsafeBucket = durability.ErrUnsafe

	// ErrCorrupt: an entry of a bucket cannot be read.
	ErrCorrupt = errors.New("lease: corrupt entry")

	// ErrConfig: a setting is out of bounds.
	ErrConfig = errors.New("lease: bad configuration")
)

// HeldError is an [ErrHeld] with who holds the worker ID. What the lease does not say is empty.
type HeldError struct {
	Datacenter, Worker int64

	Instance, Host string
	Since          time.Time // by its clock

	// Alive says that the holder has renewed its lease again and again while this process looked on. A
	// [Manager] then seeks no more, and Run returns. If it is not set, the holder may
	// be dead, and the worker ID is claimed as soon as its lease has expired.
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

// ClockLostError is an [ErrClockLost] of a bucket that is not the installation's, with what has
// to be known to go on: once no IDs can be in use whose time lies ahead, what was written about
// the old bucket can be forgotten.
type ClockLostError struct {
	// What tells the clock bucket that is there and the installation's apart: a random
	// number. Found is empty if the bucket has none.
	Found, Installed string

	StopFor time.Duration // all workers have to be stopped for longer than this
	Bucket  string        // where the installation's is written down
	Key     string        // under which
}

func (e *ClockLostError) Error() string {
	return fmt.Sprintf("%v: its identity is %.100q, expected %.100q", ErrClockLost, e.Found, e.Installed)
}

// Unwrap makes it an [ErrClockLost].
func (e *ClockLostError) Unwrap() error { return ErrClockLost }

// Problem is part of [problem.Problem].
func (e *ClockLostError) Problem() (problem.Kind, []any) {
	return problem.ClockLost, []any{e.StopFor, e.Key, e.Bucket}
}

// ClockBackError is an [ErrClockLost] of the installation's bucket: it went back to an older
// state. Once no IDs can be in use whose time lies ahead, that does no harm any more, so a
// [Manager] waits that long, and goes on by itself.
type ClockBackError struct {
	Last  uint64 // sequence of the bucket's stream
	Known uint64 // it had been this high
}

func (e *ClockBackError) Error() string {
	return fmt.Sprintf("%v: its stream is at sequence %d, was at %d", ErrClockLost, e.Last, e.Known)
}

// Unwrap makes it an [ErrClockLost].
func (e *ClockBackError) Unwrap() error { return ErrClockLost }
