package snowflake

import (
	"fmt"
	"math"
	"time"
)

// Layout defines the bits of an ID. It is an immutable value: two layouts are
// the same if they are ==, and the zero Layout is no layout.
//
//	 63 62                    22 21        12 11         0
//	┌──┬────────────────────────┬────────────┬────────────┐
//	│ 0│ time since the epoch   │ worker ID  │ sequence   │   Default
//	└──┴────────────────────────┴────────────┴────────────┘
//	   │ 41 bits of 1 ms        │ 10         │ 12         │
//
//	 63 62                    22 21  17 16 12 11         0
//	┌──┬────────────────────────┬──────┬─────┬────────────┐
//	│ 0│ time since the epoch   │datac.│ w.ID│ sequence   │   Twitter
//	└──┴────────────────────────┴──────┴─────┴────────────┘
//	   │ 41 bits of 1 ms        │ 5    │ 5   │ 12         │
//
//	 63 62                  24 23      16 15             0
//	┌──┬──────────────────────┬──────────┬────────────────┐
//	│ 0│ time since the epoch │ sequence │ worker ID      │   Sonyflake
//	└──┴──────────────────────┴──────────┴────────────────┘
//	   │ 39 bits of 10 ms     │ 8        │ 16             │
//
//	 63    53 52                      15 14      8 7       0
//	┌────────┬──────────────────────────┬─────────┬─────────┐
//	│ 0      │ time since the epoch     │worker ID│sequence │   JavaScript
//	└────────┴──────────────────────────┴─────────┴─────────┘
//	         │ 38 bits of 10 ms         │ 7       │ 8       │
//
// The sign bit is always 0. Time comes first, so that IDs sort by it.
type Layout struct {
	epoch int64 // Unix time in milliseconds
	unit  int64 // in nanoseconds

	// Widths in bits. They are uint, and values shifted by them are int64: a
	// worker ID shifted in a type of just its width would lose its high bits.
	time, datacenter, worker, sequence uint

	sequenceFirst bool // the sequence lies above datacenter and worker ID
}

// LayoutSpec describes a [Layout].
type LayoutSpec struct {
	Epoch time.Time     // when time 0 was; whole milliseconds, 1970 to 2261
	Unit  time.Duration // of the timestamp; whole microseconds, 1µs to 1s

	// Widths in bits, 63 together, or 53 for IDs that are exact as numbers of
	// JavaScript too, with the bits above left 0. Time has at least 32, worker
	// ID and sequence at least 1; the datacenter may be left out. It lies on
	// top of the worker ID.
	Time, Datacenter, Worker, Sequence int

	// SequenceFirst puts the sequence between time and worker ID, as Sonyflake
	// does, instead of last. Consecutive IDs are then not consecutive numbers.
	SequenceFirst bool
}

// The bounds of a layout. An ID is useless without room for some time, a worker
// bit and a sequence bit. Only two sums of the widths are allowed, so that a
// mistake in a width is noticed.
const (
	layoutBits  = 63
	numberBits  = 53 // exact as a number in JavaScript
	minTimeBits = 32
	minUnit     = time.Microsecond
	maxUnit     = time.Second
	// Its nanoseconds fit an int64.
	lastEpoch    = math.MaxInt64 / int64(time.Millisecond)
	nanosInMilli = int64(time.Millisecond)
)

// NewLayout checks the spec. The error wraps [ErrLayout].
func NewLayout(s LayoutSpec) (Layout, error) {
	bad := func(format string, args ...any) (Layout, error) {
		return Layout{}, fmt.Errorf("%w: "+format, append([]any{ErrLayout}, args...)...)
	}
	for _, w := range []struct {
		name       string
		width, min int
	}{
		{"time", s.Time, minTimeBits}, {"datacenter", s.Datacenter, 0}, {"worker ID", s.Worker, 1}, {"sequence", s.Sequence, 1},
	} {
		if w.width < w.min || w.width > layoutBits {
			return bad("%d bits for the %s, allowed is %d or more", w.width, w.name, w.min)
		}
	}
	if sum := s.Time + s.Datacenter + s.Worker + s.Sequence; sum != layoutBits && sum != numberBits {
		return bad("widths of %d bits in all, allowed is %d, or %d for IDs below 2^53", sum, layoutBits, numberBits)
	}
	if s.Unit < minUnit || s.Unit > maxUnit || s.Unit%minUnit != 0 {
		return bad("unit %v, allowed are whole microseconds from %v to %v", s.Unit, minUnit, maxUnit)
	}
	epoch := s.Epoch.UnixMilli()
	if epoch < 0 || epoch >= lastEpoch || !time.UnixMilli(epoch).Equal(s.Epoch) {
		return bad("epoch %v, allowed are whole milliseconds from 1970 to 2261", s.Epoch)
	}
	return Layout{
		epoch:         epoch,
		unit:          int64(s.Unit),
		time:          uint(s.Time),
		datacenter:    uint(s.Datacenter),
		worker:        uint(s.Worker),
		sequence:      uint(s.Sequence),
		sequenceFirst: s.SequenceFirst,
	}, nil
}

// Spec returns the description of the layout; change it and call [NewLayout] to
// get another layout.
func (l Layout) Spec() LayoutSpec {
	return LayoutSpec{
		Epoch:         time.UnixMilli(l.epoch).UTC(),
		Unit:          time.Duration(l.unit),
		Time:          int(l.time),
		Datacenter:    int(l.datacenter),
		Worker:        int(l.worker),
		Sequence:      int(l.sequence),
		SequenceFirst: l.sequenceFirst,
	}
}

// IsZero reports whether this is the zero Layout, which is no layout.
func (l Layout) IsZero() bool { return l == Layout{} }

// MaxWorkerID is the highest worker ID of a datacenter; the lowest is 0.
func (l Layout) MaxWorkerID() int64 { return mask(l.worker) }

// MaxDatacenter is the highest datacenter; 0 if the layout has none.
func (l Layout) MaxDatacenter() int64 { return mask(l.datacenter) }

// MaxSequence is the highest sequence number: one less than a worker's IDs in a
// time unit.
func (l Layout) MaxSequence() int64 { return mask(l.sequence) }

// MaxTimestamp is the last timestamp of the layout.
func (l Layout) MaxTimestamp() int64 { return mask(l.time) }

// End is the moment at which the lifetime of the layout is over.
func (l Layout) End() time.Time { return l.TimeAt(l.MaxTimestamp() + 1) }

// Where the parts lie.

func (l Layout) timeShift() uint { return l.datacenter + l.worker + l.sequence }

func (l Layout) datacenterShift() uint { return l.workerShift() + l.worker }

func (l Layout) workerShift() uint {
	if l.sequenceFirst {
		return 0
	}
	return l.sequence
}

func (l Layout) sequenceShift() uint {
	if l.sequenceFirst {
		return l.datacenter + l.worker
	}
	return 0
}

// mask has the lowest width bits set.
func mask(width uint) int64 { return int64(1)<<width - 1 }
