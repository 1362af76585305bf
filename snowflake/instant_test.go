package snowflake

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// within draws a moment of a layout's lifetime, often at an end of a unit.
func within(t *rapid.T, l Layout) time.Time {
	begin := l.TimeAt(rapid.Int64Range(0, min(l.MaxTimestamp(), 1<<40)).Draw(t, "timestamp"))
	return begin.Add(time.Duration(rapid.OneOf(
		rapid.SampledFrom([]int64{0, l.unit - 1}), rapid.Int64Range(0, l.unit-1),
	).Draw(t, "into the unit")))
}

func drawLayout(t *rapid.T) Layout {
	return rapid.OneOf(rapid.SampledFrom(allNamed()), rapid.Custom(anyLayout)).Draw(t, "layout")
}

// TestIDsOfAMomentAreWithin: any ID that is made at a moment lies between the
// two, for its own time and for no other.
func TestIDsOfAMomentAreWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		moment, other := within(t, l), within(t, l)
		g, err := New(Settings{
			Layout:     l,
			Datacenter: rapid.Int64Range(0, l.MaxDatacenter()).Draw(t, "datacenter"),
			Worker:     rapid.Int64Range(0, l.MaxWorkerID()).Draw(t, "worker"),
			Fence:      Fence{Hi: Forever},
			MaxAhead:   time.Nanosecond, // none
			Clock:      func() int64 { return moment.UnixNano() },
		})
		if err != nil {
			t.Fatal(err)
		}
		id, err := g.Next()
		// The first unit is not used, and nanoseconds end in 2262.
		if moment.Before(l.TimeAt(1)) || moment.Year() > 2261 {
			return
		}
		if err != nil {
			t.Fatalf("%v at %v: %v", l, moment, err)
		}
		first, last := ends(t, l, moment)
		if id < first || id > last {
			t.Fatalf("%v: %d was made at %v, whose IDs are %d to %d", l, id, moment, first, last)
		}
		first, last = ends(t, l, other)
		if same := l.TimestampAt(moment) == l.TimestampAt(other); same != (first <= id && id <= last) {
			t.Fatalf("%v: %d was made at %v, and %d to %d are the IDs of %v", l, id, moment, first, last, other)
		}
	})
}

// TestMomentsLeaveNoGap: the last ID of a unit is followed by the first of the
// next. Both ends are IDs of the moment.
func TestMomentsLeaveNoGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLayout(t)
		moment := within(t, l)
		first, last := ends(t, l, moment)
		if first < 1 || l.Timestamp(first) != l.TimestampAt(moment) || l.Timestamp(last) != l.TimestampAt(moment) {
			t.Fatalf("%v: %d to %d are no IDs of %v", l, first, last, moment)
		}
		next := moment.Add(time.Duration(l.unit))
		if !next.Before(l.End()) {
			return
		}
		if after, _ := ends(t, l, next); after != last+1 {
			t.Fatalf("%v: %d comes after %d", l, after, last)
		}
	})
}

func ends(t *rapid.T, l Layout, moment time.Time) (first, last ID) {
	first, err := l.FirstAt(moment)
	last, lastErr := l.LastAt(moment)
	if err != nil || lastErr != nil {
		t.Fatalf("%v at %v: %v, %v", l, moment, err, lastErr)
	}
	return first, last
}

func TestMomentsOutsideTheLayout(t *testing.T) {
	for _, l := range allNamed() {
		for moment, ok := range map[time.Time]bool{
			{}:                  false,
			l.TimeAt(0).Add(-1): false,
			l.TimeAt(0):         true,
			l.End().Add(-1):     true,
			l.End():             false,
			time.Unix(1<<55, 0): false,
		} {
			first, err := l.FirstAt(moment)
			last, lastErr := l.LastAt(moment)
			if ok != (err == nil) || ok != (lastErr == nil) || !ok && (!errors.Is(err, ErrTime) || !errors.Is(lastErr, ErrTime)) {
				t.Errorf("%v at %v: %v, %v", l, moment, err, lastErr)
			}
			if ok && (first < 1 || last < first) {
				t.Errorf("%v at %v: %d to %d", l, moment, first, last)
			}
		}
	}
}

// TestIDsOfAMomentByHand: figures that were worked out with another program.
func TestIDsOfAMomentByHand(t *testing.T) {
	// Of the ID in Discord's documentation.
	at := time.Date(2016, 4, 30, 11, 18, 25, 796e6, time.UTC)
	first, _ := Discord().FirstAt(at)
	last, _ := Discord().LastAt(at)
	if first != 175928847298985984 || last != 175928847303180287 {
		t.Errorf("%d to %d", first, last)
	}
	at = time.Date(2026, 7, 1, 12, 0, 0, 19e6, time.UTC) // the unit of 10 ms
	first, _ = JavaScript().FirstAt(at)
	last, _ = JavaScript().LastAt(at)
	if first != 154722631712768 || last != 154722631745535 {
		t.Errorf("%d to %d", first, last)
	}
}

// TestEveryIDOfAMoment puts all IDs of a time unit together from the bits that
// each layout's origin publishes. FirstAt and LastAt are the lowest and highest.
func TestEveryIDOfAMoment(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	for name, public := range map[string]struct {
		epoch, unit                int64 // milliseconds
		high, middle, low          int   // bits below the time
		time                       int
		lastDatacenter, lastWorker int64
	}{
		"default":   {1735689600000, 1, 0, 10, 12, 41, 0, 1023},
		"js":        {1735689600000, 10, 0, 7, 8, 38, 0, 127},
		"twitter":   {1288834974657, 1, 5, 5, 12, 41, 31, 31},
		"discord":   {1420070400000, 1, 5, 5, 12, 41, 31, 31},
		"instagram": {1314220021721, 1, 0, 13, 10, 40, 0, 8191},
		"sonyflake": {1409529600000, 10, 0, 8, 16, 39, 0, 65535},
	} {
		l, err := ParseLayout(name)
		if err != nil {
			t.Fatal(err)
		}
		if l.Spec().Time != public.time || l.MaxDatacenter() != public.lastDatacenter || l.MaxWorkerID() != public.lastWorker {
			t.Errorf("%s: %+v", name, l.Spec())
		}
		timestamp := (at - public.epoch) / public.unit
		lowest, highest := ID(1<<62), ID(0)
		for high := range int64(1) << public.high {
			for middle := range int64(1) << public.middle {
				for low := range int64(1) << public.low {
					id := ID(((timestamp<<public.high|high)<<public.middle|middle)<<public.low | low)
					lowest, highest = min(lowest, id), max(highest, id)
				}
			}
		}
		first, err := l.FirstAt(time.UnixMilli(at))
		last, lastErr := l.LastAt(time.UnixMilli(at))
		if first != lowest || last != highest || err != nil || lastErr != nil {
			t.Errorf("%s: %d to %d, want %d to %d (%v, %v)", name, first, last, lowest, highest, err, lastErr)
		}
		for id, in := range map[ID]bool{first - 1: false, first: true, last: true, last + 1: false} {
			if is := l.Timestamp(id) == timestamp; is != in {
				t.Errorf("%s: %d has timestamp %d, and %d is wanted: %v", name, id, l.Timestamp(id), timestamp, in)
			}
		}
	}
}
