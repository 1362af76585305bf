package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker"
)

// outageCheck is the subject of the declared outage.
const outageCheck = "outage"

// endingFence is the time before the end of a fence when a worker ID that is not
// confirmed becomes an error: an operator needs some of it.
const endingFence = 15 * time.Minute

// reservedLong is longer than a lease without an outage is reserved for after
// its process has died, and than clocks differ.
const reservedLong = 2 * time.Minute

// DeclaredOutage is for how long snowflake IDs are made without JetStream.
type DeclaredOutage struct {
	For float64 `json:"for_seconds"` // 0: for no longer than the lease time
	// The longest that was ever declared. Worker IDs of the upper half wait as long
	// after a loss of the fences.
	Longest float64 `json:"longest_seconds"`
}

// Waits is until when no process may claim a worker ID of a half, after a loss of
// the fences.
type Waits struct {
	Lower time.Time `json:"lower_half,omitzero"`
	Upper time.Time `json:"upper_half,omitzero"`
}

// readOutage adds the declared outage, the value of [lease.OutageKey].
func (i *Installation) readOutage(text string) {
	if text == "" {
		return
	}
	var o lease.OutageSetting
	if o, i.outageErr = lease.ParseOutage(text); i.outageErr == nil {
		i.Outage = &DeclaredOutage{o.For.Seconds(), o.Longest.Seconds()}
	}
}

// addWaits adds the times of a loss, unless they are past.
func (i *Installation) addWaits(lost lease.Lost, now time.Time) {
	if lost.Lower.After(now) || lost.Upper.After(now) {
		i.Waits = &Waits{lost.Lower, lost.Upper}
	}
}

// judgeOutage judges for how long snowflake IDs are made without JetStream, and
// what keeps worker IDs from being claimed.
func (i *Installation) judgeOutage(reports []worker.Report) (all []Diagnosis) {
	switch {
	case i.outageErr != nil:
		all = append(all, trouble(Error, outageCheck, "%v, so snowflake IDs end after the lease time without JetStream; set it with idworker provision --outage 1h", i.outageErr))
	case i.Outage != nil:
		all = append(all, Diagnosis{What: outageCheck, Text: i.Outage.String() + i.shortFences(reports)})
		all = append(all, i.judgeShortWaits(reports)...)
	case !i.layout.IsZero() && i.embedded:
		all = append(all, Diagnosis{What: outageCheck, Text: "not declared, and not needed: JetStream runs in the process of a worker"})
	case !i.layout.IsZero() && !i.embedded && i.Known(configPart):
		all = append(all, Diagnosis{What: outageCheck, Text: "not declared: without JetStream, snowflake IDs end after the lease time, as in version 0.2.0; " +
			"once all processes are newer, idworker provision --outage 1h makes them last for an hour"})
	}
	return slices.Concat(all, i.judgeLostClock(), i.judgeWaits(), i.judgeReserved())
}

// judgeLostClock names a bucket of fences that took the place of another.
func (i *Installation) judgeLostClock() []Diagnosis {
	lost := i.lostClock
	if lost == nil {
		return nil
	}
	return []Diagnosis{trouble(Error, workerIDsPart, "%v, so no process claims a worker ID: stop the workers that are cut off from NATS, wait for %v, then delete key %s of bucket %s; the other workers may run on",
		lost, lost.Wait, lost.Key, lost.Bucket)}
}

// shortFences tells how many processes do not have the declared reserve, because
// their worker IDs are of the lower half or fixed, or were claimed before.
func (i *Installation) shortFences(reports []worker.Report) string {
	all, short := 0, 0
	for _, r := range reports {
		if r.Stats.WorkerID == nil || r.Clock == nil || r.Clock.Unconfirmed == nil || *r.Clock.Unconfirmed > 0 {
			continue
		}
		if all++; r.Clock.ReservedIn < i.Outage.For/2 {
			short++
		}
	}
	if short == 0 {
		return ""
	}
	return fmt.Sprintf("; for the lease time only on %d of %s, whose worker IDs are of the lower half or fixed, or were claimed before the outage was declared", short, format.Of(int64(all), "worker"))
}

// String describes the outage.
func (o *DeclaredOutage) String() string {
	text := "off: without JetStream, snowflake IDs end after the lease time"
	if o.For > 0 {
		text = "snowflake IDs for " + spanOf(o.For) + " without JetStream"
	}
	if o.Longest > o.For {
		text += "; if ids_clock is lost, the upper half of the worker IDs waits for " + spanOf(o.Longest) + ", the longest that was ever declared"
	}
	return text
}

// Lasting describes the outage, or is empty if no long one is declared.
func (i *Installation) Lasting() string {
	if i.Outage == nil || i.Outage.For <= 0 {
		return ""
	}
	return i.Outage.String()
}

// spanOf formats a duration that an operator declared: 1h, or 1h30m.
func spanOf(seconds float64) string {
	text := (time.Duration(seconds) * time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// judgeShortWaits warns of processes that do not know of the outage: they do not
// wait for it after a loss.
func (i *Installation) judgeShortWaits(reports []worker.Report) (all []Diagnosis) {
	for _, r := range reports {
		if i.Outage.Longest > 0 && r.Answers() && r.Clock != nil && r.Clock.Unconfirmed == nil {
			all = append(all, trouble(Warning, processName(r.Role, r.Host, r.Instance),
				"version %s does not know of declared outages: after a loss of the fences it may claim a worker ID too early; upgrade it", r.Version))
		}
	}
	return all
}

// judgeWaits warns that worker IDs wait after a loss of the fences.
func (i *Installation) judgeWaits() []Diagnosis {
	if i.Waits == nil {
		return nil
	}
	text := WaitingText(i.Taken, i.layout, lease.Lost{Lower: i.Waits.Lower, Upper: i.Waits.Upper})
	if text == "" {
		return nil
	}
	return []Diagnosis{trouble(Warning, workerIDsPart, "the fences were lost, so %s; processes that hold a worker ID keep it", text)}
}

// WaitingText describes which worker IDs wait after a loss of the fences, or is
// empty.
func WaitingText(now time.Time, layout snowflake.Layout, until lease.Lost) string {
	if layout.IsZero() {
		return ""
	}
	var halves []string
	add := func(first, last int64, until time.Time) {
		if first <= last && until.After(now) {
			halves = append(halves, fmt.Sprintf("worker IDs %d to %d wait until %s", first, last, clockTime(now, until)))
		}
	}
	upper := lease.UpperHalf(layout)
	add(0, upper-1, until.Lower)
	add(upper, layout.MaxWorkerID(), until.Upper)
	return strings.Join(halves, ", and ")
}

// clockTime formats a time of today, or with its date.
func clockTime(now, t time.Time) string {
	layout := "15:04 UTC"
	if now.UTC().Format(time.DateOnly) != t.UTC().Format(time.DateOnly) {
		layout = "2006-01-02 15:04 UTC"
	}
	return t.UTC().Format(layout)
}

// judgeReserved warns of many worker IDs that are reserved although no process
// holds them: each crash of a process costs one for the declared outage.
func (i *Installation) judgeReserved() (all []Diagnosis) {
	if i.layout.IsZero() {
		return nil
	}
	count := i.layout.MaxWorkerID() + 1
	dead := make(map[int64]int64) // datacenter → worker IDs
	last := make(map[int64]time.Time)
	var order []int64
	for _, id := range i.WorkerIDs {
		if id.Instance != "" || !id.Reserved.After(i.Taken.Add(reservedLong)) {
			continue
		}
		if dead[id.Datacenter]++; dead[id.Datacenter] == 1 {
			order = append(order, id.Datacenter)
		}
		if id.Reserved.After(last[id.Datacenter]) {
			last[id.Datacenter] = id.Reserved
		}
	}
	for _, datacenter := range order {
		if dead[datacenter] <= count/4 {
			continue
		}
		all = append(all, trouble(Warning, workerIDsPart, "of %s in datacenter %d, %s reserved for processes that died or are cut off, the last until %s; find out why processes end",
			format.Of(count, "worker ID"), datacenter, are(dead[datacenter]), clockTime(i.Taken, last[datacenter])))
	}
	return all
}

// are formats a number with its verb.
func are(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return format.Count(n) + " are"
}

// judgeHold judges a worker ID whose heartbeats fail.
func (i *Installation) judgeHold(r worker.Report) (severity Severity, short, text string) {
	left := r.Clock.ReservedIn
	switch {
	case r.Stats.WorkerID == nil:
	case r.Clock.Unconfirmed != nil && *r.Clock.Unconfirmed > 0:
		now := r.Time
		if now.IsZero() {
			now = i.Taken
		}
		if severity = Warning; left < endingFence.Seconds() {
			severity = Error
		}
		// Bounded, because a process may report any number.
		until := now.Add(time.Duration(min(max(left, 0), maxLeft.Seconds()) * float64(time.Second)))
		return severity, "unconfirmed", fmt.Sprintf("worker ID %d, not confirmed for %s, IDs until %s",
			*r.Stats.WorkerID, format.Duration(*r.Clock.Unconfirmed), clockTime(i.Taken, until))
	case left < reservedLeast.Seconds():
		return Warning, "heartbeats fail", fmt.Sprintf("clock reserved for only %.0f s more: heartbeats fail", left)
	}
	return "", "", ""
}

// maxLeft is longer than any outage.
const maxLeft = 365 * 24 * time.Hour
