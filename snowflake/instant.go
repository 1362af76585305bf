package snowflake

import (
	"fmt"
	"time"
)

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
