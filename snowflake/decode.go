package snowflake

import (
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
