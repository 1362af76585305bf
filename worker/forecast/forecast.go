// Package forecast computes when IDs run out: the IDs of a tag at their present
// rate of use, and the IDs of a layout of snowflake IDs, whose end is certain.
//
// # Limits
//
// A tag ends at 2^63. Before that, its IDs reach 2^31, where they outgrow
// signed 32-bit columns, and 2^53, where JavaScript rounds them. The latter two
// matter only to programs that keep IDs in such types. A limit that was passed
// is not reported.
//
// # Evidence
//
// A date extrapolates the past rate. A date is reported only if the rate was
// measured for at least a thousandth of the time until then, and for at least a
// minute. After a whole day, which has busy and quiet hours, every date is
// reported, up to a century ahead.
package forecast

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/idworker/idworker/snowflake"
)

// Limit is a bound that IDs run into.
type Limit string

// The limits.
const (
	// the first number too large for a signed 32-bit integer
	Int32  Limit = "2^31"
	Double Limit = "2^53" // from here on, JavaScript numbers are inexact
	End    Limit = "end"  // no more IDs
)

// Date is the time when a limit is reached.
type Date struct {
	Limit Limit     `json:"limit"`
	At    time.Time `json:"at"`
}

// Soon is the time before a limit when warnings begin. It leaves time to change
// column types and the programs that read them.
const Soon = 365 * 24 * time.Hour

// IsSoon reports whether the limit is less than a year ahead, or past.
func (d Date) IsSoon(now time.Time) bool { return d.At.Sub(now) < Soon }

// String is the date for people.
func (d Date) String() string { return fmt.Sprintf("%s on %s", d.Limit, Day(d.At)) }

// Day is a date without the time of day.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Warning is a warning about a tag that is soon at a limit, with the evidence.
func (u Use) Warning(d Date, now time.Time) string {
	what := "its IDs reach " + string(d.Limit)
	if d.Limit == End {
		what = "its IDs end"
	}
	return fmt.Sprintf("%s in %s, on %s, at a rate of %s/s, as in the last %s", what,
		span(d.At.Sub(now)), Day(d.At), perSecond(u.Rate), span(time.Duration(u.Seconds)*time.Second))
}

// LayoutWarning is a warning about a layout that is soon at a limit, or past
// it.
func (d Date) LayoutWarning() string {
	if d.Limit == End {
		return "snowflake IDs end on " + Day(d.At)
	}
	return "snowflake IDs reach " + string(d.Limit) + " on " + Day(d.At)
}

// perSecond formats a rate.
func perSecond(rate float64) string {
	if rate < 10 {
		return fmt.Sprintf("%.2g", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// span formats a duration.
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

// Use is the use of a tag's numbers by all workers together, as measured by the
// workers.
type Use struct {
	High int64 `json:"high"` // all numbers below were granted
	// numbers a second; 0 if there was too little to measure
	Rate    float64 `json:"rate"`
	Seconds float64 `json:"seconds"` // duration of the measurement

	// Limit is the end of the numbers if it is below 2^63 - 1; or 0.
	Limit int64 `json:"limit,omitempty"`
}

// Join joins the measurements of two workers. The rate is that of the longer
// measurement.
func (u Use) Join(other Use) Use {
	joined := u
	if other.Rate > 0 && (u.Rate <= 0 || other.Seconds > u.Seconds) {
		joined = other
	}
	joined.High = max(u.High, other.High)
	joined.Limit = cmp.Or(u.Limit, other.Limit)
	return joined
}

// The evidence that a date needs.
const (
	leastSeconds  = 60
	enoughSeconds = 24 * 60 * 60
	// without enoughSeconds, the reach of a date as a multiple of the
	// measurement
	farther  = 1000
	maxAhead = 100 * 365 * 24 * 60 * 60
)

// limits are the limits of tags, in order. Like Leaf's max_id, the end must fit
// an int64.
var limits = []struct {
	name  Limit
	first int64 // the first number beyond the limit
}{{Int32, 1 << 31}, {Double, 1 << 53}, {End, math.MaxInt64}}

// Dates returns the dates of the limits ahead at the present rate, in order. It
// omits those without sufficient evidence.
func (u Use) Dates(now time.Time) (dates []Date) {
	end := cmp.Or(u.Limit, math.MaxInt64)
	for _, limit := range limits {
		if limit.name == End {
			limit.first = end
		}
		if u.High >= limit.first || u.High < 1 || limit.first > end {
			continue
		}
		ahead := float64(limit.first-u.High) / u.Rate
		if !u.reaches(ahead) {
			break // later limits have even less evidence
		}
		dates = append(dates, Date{limit.name, now.Add(time.Duration(ahead) * time.Second).UTC().Truncate(time.Second)})
	}
	return dates
}

// reaches reports whether the evidence suffices for a date so many seconds
// ahead.
func (u Use) reaches(ahead float64) bool {
	return u.Rate > 0 && u.Seconds >= leastSeconds && ahead <= maxAhead && (u.Seconds >= enoughSeconds || ahead <= farther*u.Seconds)
}

// OfLayout returns the dates when the IDs of a layout reach the limits ahead
// and their end, in order. It needs no rate: the value of an ID follows from
// its time.
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

// lastYear bounds the dates that are reported. Layouts may last longer.
const lastYear = 9999
