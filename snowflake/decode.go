package snowflake

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// The parts of an ID. They are right for an ID that was made with this layout;
// an ID does not show with which layout it was made.

// Timestamp is the ID's time in units since the epoch.
func (l Layout) Timestamp(id ID) int64 { return int64(id) >> l.timeShift() & mask(l.time) }

// Time is the beginning of the ID's time unit. The package's promises bound its
// distance from the moment at which the ID was issued.
func (l Layout) Time(id ID) time.Time { return l.TimeAt(l.Timestamp(id)) }

// Datacenter is the ID's datacenter; 0 if the layout has none.
func (l Layout) Datacenter(id ID) int64 { return int64(id) >> l.datacenterShift() & mask(l.datacenter) }

// WorkerID is the worker that issued the ID, within its datacenter.
func (l Layout) WorkerID(id ID) int64 { return int64(id) >> l.workerShift() & mask(l.worker) }

// Sequence is the ID's number within its time unit.
func (l Layout) Sequence(id ID) int64 { return int64(id) >> l.sequenceShift() & mask(l.sequence) }

// Timestamps and times. A layout of seconds lasts longer than an int64 of
// nanoseconds can express, so both directions are computed in 128 bits.

const nanosInSecond = uint64(time.Second)

// TimeAt is when timestamp t begins. A negative t counts as 0.
func (l Layout) TimeAt(t int64) time.Time {
	hi, lo := bits.Mul64(uint64(max(t, 0)), uint64(l.unit))
	// hi < maxUnit/2, so this cannot overflow.
	seconds, nanos := bits.Div64(hi, lo, nanosInSecond)
	epoch := time.UnixMilli(l.epoch).UTC()
	return time.Unix(epoch.Unix()+int64(seconds), int64(epoch.Nanosecond())+int64(nanos)).UTC()
}

// TimestampAt is the timestamp at time t: −1 if that is before the epoch, and
// possibly beyond MaxTimestamp.
func (l Layout) TimestampAt(t time.Time) int64 {
	epoch := time.UnixMilli(l.epoch)
	if t.Before(epoch) || l.unit == 0 {
		return -1
	}
	hi, lo := bits.Mul64(uint64(t.Unix()-epoch.Unix()), nanosInSecond)
	lo, carry := bits.Add64(lo, uint64(t.Nanosecond()), 0)
	lo, borrow := bits.Sub64(lo, uint64(epoch.Nanosecond()), 0)
	hi += carry - borrow
	if hi >= uint64(l.unit) { // more units than 64 bits can count
		return math.MaxInt64
	}
	units, _ := bits.Div64(hi, lo, uint64(l.unit))
	return int64(min(units, math.MaxInt64))
}

// The IDs of a moment, for queries. An ID has the time unit in which it was
// made: a millisecond in most layouts, 10 ms in some, see [LayoutSpec]. So the
// IDs of a moment are all IDs of its unit, from all workers and datacenters.
// The IDs of the time from a up to b, without b, are
//
//	FirstAt(a) ≤ id < FirstAt(b)
//
// if a and b are the beginnings of units, as whole seconds are in every named
// layout.
//
// The ID's own time counts, as Time returns it. It may differ from the moment
// of creation by MaxAhead and by the error of the worker's clock. To find all
// IDs made between two moments, query for as much more on either side.

// FirstAt is the lowest ID of the time unit that t lies in. The error wraps
// [ErrTime].
func (l Layout) FirstAt(t time.Time) (ID, error) {
	at, err := l.timestampWithin(t)
	if err != nil {
		return 0, err
	}
	return ID(max(at<<l.timeShift(), 1)), nil // there is no ID 0
}

// LastAt is the highest ID of the time unit that t lies in. The error wraps
// [ErrTime].
func (l Layout) LastAt(t time.Time) (ID, error) {
	at, err := l.timestampWithin(t)
	if err != nil {
		return 0, err
	}
	return ID(at<<l.timeShift() | mask(l.timeShift())), nil
}

// timestampWithin is the timestamp at t, if the layout has that time.
func (l Layout) timestampWithin(t time.Time) (int64, error) {
	at := l.TimestampAt(t)
	if at < 0 || at > l.MaxTimestamp() {
		return 0, fmt.Errorf("%w: %s, allowed is %s to %s (exclusive)", ErrTime,
			t.UTC().Format(time.RFC3339Nano), l.TimeAt(0).Format(time.RFC3339Nano), l.End().Format(time.RFC3339Nano))
	}
	return at, nil
}
