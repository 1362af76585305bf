// Package forecast says when numbers run out: those of a tag at the rate at which they are used, and those of
// a layout of snowflake IDs, whose end is certain.
//
// # Limits
//
// A tag ends at 2^63. Before that its IDs reach 2^31, from where on they do not fit a signed column of 32 bits, and 2^53,
// from where on JavaScript rounds them. Who keeps IDs in neither need not care. A limit that was passed is not spoken of.
//
// # Evidence
//
// A rate is that of the past, and a date says what happens if it goes on. So what was seen has to stand in
// relation to what is said: a date is said once the rate was measured for a thousandth of the time until then, and
// for a minute at least. After a whole day, which has its busy and its quiet hours, any date is said. One that is more than a century
// ahead is none.
package forecast

import (
	"fmt"
	"math"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// Limit is what numbers run into.
type Limit string

// The limits.
const (
	Int32  Limit = "2^31" // the first number that is too large for a signed integer of 32 bits
	Double Limit = "2^53" // from here on a number of JavaScript is not exact
	End    Limit = "end"  // there are no more
)

// Date is when a limit is reached.
type Date struct {
	Limit Limit     `json:"limit"`
	At    time.Time `json:"at"`
}

// Soon is how long before a limit there is a warning: time to change the type of a column and the programs that read it.
const Soon = 365 * 24 * time.Hour

// IsSoon reports whether the limit is less than a year ahead, or past.
func (d Date) IsSoon(now time.Time) bool { return d.At.Sub(now) < Soon }

// String is the date for people.
func (d Date) String() string { return fmt.Sprintf("%s on %s", d.Limit, Day(d.At)) }

// Day is a date without the time of day.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Warning is what to say of a tag that is soon at a limit, and what that is concluded from.
func (u Use) Warning(d Date, now time.Time) string {
	what := "its IDs reach " + string(d.Limit)
	if d.Limit == End {
		what = "its IDs end"
	}
	return fmt.Sprintf("%s in %s, on %s, at %s numbers a second, as in the last %s", what,
		span(d.At.Sub(now)), Day(d.At), perSecond(u.Rate), span(time.Duration(u.Seconds)*time.Second))
}

// LayoutWarning is what to say of a layout that is soon at a limit, or past it.
func (d Date) LayoutWarning() string {
	if d.Limit == End {
		return "snowflake IDs end on " + Day(d.At)
	}
	return "snowflake IDs reach " + string(d.Limit) + " on " + Day(d.At)
}

// perSecond is a rate for people.
func perSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.2g", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// span is some time for people.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 2*day:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// Use is how the numbers of a tag are used up by all workers together, as one worker or several see it.
type Use struct {
	High    int64   `json:"high"`    // all numbers below were granted
	Rate    float64 `json:"rate"`    // numbers a second; 0 if there was too little to measure
	Seconds float64 `json:"seconds"` // for how long it was measured
}

// Join is what two workers together know: the rate is that of the one that has measured for longer.
func (u Use) Join(other Use) Use {
	joined := u
	if other.Rate > 0 && (u.Rate <= 0 || other.Seconds > u.Seconds) {
		joined = other
	}
	joined.High = max(u.High, other.High)
	return joined
}

// The evidence that a date takes.
const (
	leastSeconds  = 60
	enoughSeconds = 24 * 60 * 60
	farther       = 1000 // times as far ahead as was measured is the farthest that is said before that
	maxAhead      = 100 * 365 * 24 * 60 * 60
)

// limits are those of tags, in order. Below its end, like Leaf's max_id, all numbers have to fit an int64.
var limits = []struct {
	name  Limit
	first int64 // that is beyond
}{{Int32, 1 << 31}, {Double, 1 << 53}, {End, math.MaxInt64}}

// Dates are when the limits ahead are reached if it goes on like this, in order: those of which that can be said.
func (u Use) Dates(now time.Time) (dates []Date) {
	for _, limit := range limits {
		if u.High >= limit.first || u.High < 1 {
			continue
		}
		ahead := float64(limit.first-u.High) / u.Rate
		if !u.reaches(ahead) {
			break // what is farther away even less
		}
		dates = append(dates, Date{limit.name, now.Add(time.Duration(ahead) * time.Second).UTC().Truncate(time.Second)})
	}
	return dates
}

// reaches reports whether the evidence is enough for what is so many seconds ahead.
func (u Use) reaches(ahead float64) bool {
	return u.Rate > 0 && u.Seconds >= leastSeconds && ahead <= maxAhead && (u.Seconds >= enoughSeconds || ahead <= farther*u.Seconds)
}

// OfLayout is when the IDs of a layout reach the limits ahead, and when they end, in order. That takes no rate: an ID
// is as high as it is late.
func OfLayout(l snowflake.Layout, now time.Time) (dates []Date) {
	if l.IsZero() {
		return nil
	}
	end, spec := l.End(), l.Spec()
	below := spec.Datacenter + spec.Worker + spec.Sequence // bits
	for _, limit := range limits[:2] {
		if at := l.TimeAt(limit.first >> below); at.After(now) && at.Before(end) {
			dates = append(dates, Date{limit.name, at})
		}
	}
	if end.Year() <= lastYear {
		dates = append(dates, Date{End, end})
	}
	return dates
}

// lastYear is the last one that dates are written of. Layouts may last for longer.
const lastYear = 9999
