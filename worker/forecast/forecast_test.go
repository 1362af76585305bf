package forecast

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	hour = 60 * 60
	day  = 24 * hour
	year = 365 * day
)

// TestDates: a date needs evidence, and only limits ahead have dates.
func TestDates(t *testing.T) {
	in := func(seconds float64) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		why  string
		use  Use
		want []Date
	}{
		{"nothing was measured", Use{High: 1 << 30}, nil},
		{"nothing was granted", Use{Rate: 1e9, Seconds: day}, nil},
		{"no use at all", Use{High: 1 << 30, Seconds: day}, nil},
		{"an hour ahead after a minute", Use{1<<31 - 1000*hour, 1000, 60, 0}, []Date{{Int32, in(hour)}}},
		{"an hour ahead after less", Use{1<<31 - 1000*hour, 1000, 59, 0}, nil},
		{"a year ahead after nine hours", Use{1<<31 - 10*year, 10, 9 * hour, 0}, []Date{{Int32, in(year)}}},
		{"a year ahead after eight hours", Use{1<<31 - 10*year, 10, 8 * hour, 0}, nil},
		{"twenty years ahead after a day", Use{1<<31 - 20*year, 1, day, 0}, []Date{{Int32, in(20 * year)}}},
		{"twenty years ahead after less", Use{1<<31 - 20*year, 1, day - 1, 0}, nil},
		{"more than a century ahead", Use{1, 0.5, 30 * day, 0}, nil},
		{"just before 2^31", Use{1<<31 - 1, 1, 60, 0}, []Date{{Int32, in(1)}}},
		{"at 2^31", Use{1 << 31, 1, 60, 0}, nil},
		{"2^53, and the end is too far", Use{1<<53 - 1e6*day, 1e6, day, 0}, []Date{{Double, in(day)}}},
		{"raised to the microseconds since 1970", Use{1_795_435_200_000_000, 1e6, 30 * day, 0}, nil},
		{"beyond 2^53", Use{math.MaxInt64 - 1e9*year, 1e9, day, 0}, []Date{{End, in(year)}}},
		{"in a narrow column", Use{math.MaxInt32 - 10*hour, 10, day, math.MaxInt32}, []Date{{End, in(hour)}}},
		{"beyond a narrow column", Use{math.MaxInt32, 10, day, math.MaxInt32}, nil},
		{"at the end", Use{math.MaxInt64, 1e9, day, 0}, nil},
		{"two limits", Use{1<<31 - 1e9, 1e8, day, 0}, []Date{{Int32, in(10)}, {Double, in(math.Floor((1<<53 - 1<<31 + 1e9) / 1e8))}}},
		{"an impossible report", Use{-5, -1e300, -1, 0}, nil},
		{"or this", Use{5, 1e300, 1e300, 0}, []Date{{Int32, now}, {Double, now}, {End, now}}},
	} {
		if got := c.use.Dates(now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
}

// TestJoin: the rate is that of the longer measurement, the highest grant that
// of both.
func TestJoin(t *testing.T) {
	long, short, none := Use{100, 5, hour, 0}, Use{200, 50, 60, 0}, Use{300, 0, 0, 0}
	for _, c := range []struct{ a, b, want Use }{
		{long, short, Use{200, 5, hour, 0}}, {short, long, Use{200, 5, hour, 0}}, {none, short, Use{300, 50, 60, 0}}, {short, none, Use{300, 50, 60, 0}}, {Use{}, none, none},
	} {
		if got := c.a.Join(c.b); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestOfLayout: the end of a layout is certain, and limits that its IDs are
// below or beyond have no date.
func TestOfLayout(t *testing.T) {
	end := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	for text, want := range map[string]time.Time{"default": end(2094, 9, 7), "twitter": end(2080, 7, 10), "sonyflake": end(2188, 11, 16)} {
		l, err := snowflake.ParseLayout(text)
		if err != nil {
			t.Fatal(err)
		}
		got := OfLayout(l, now)
		if len(got) != 1 || got[0].Limit != End || Day(got[0].At) != Day(want) {
			t.Errorf("%s: %v, want its end on %s", text, got, Day(want))
		}
	}
	// Two bits of worker and sequence: 2^53 is 2^51 µs after the epoch, which
	// is 71 years.
	l, err := snowflake.ParseLayout("61:1µs/w1/s1@1735689600000")
	if err != nil {
		t.Fatal(err)
	}
	got := OfLayout(l, now)
	if len(got) != 1 || got[0].Limit != Double || Day(got[0].At) != "2096-05-10" {
		t.Errorf("%v, want 2^53 in 2096, and no end: JSON cannot write its year", got)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
	if got := OfLayout(snowflake.Layout{}, now); got != nil {
		t.Errorf("%v of no layout", got)
	}
}

// TestIsSoon: a year ahead is soon, and so is the past.
func TestIsSoon(t *testing.T) {
	for seconds, want := range map[time.Duration]bool{year - 1: true, year: false, -hour: true} {
		if got := (Date{End, now.Add(seconds * time.Second)}).IsSoon(now); got != want {
			t.Errorf("in %v: %v", seconds*time.Second, got)
		}
	}
}
