package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/worker"
)

// From where on something is worth a warning. They are those of the alerts in docs/prometheus-rules.yml.
const (
	shortRunway   = 5 * time.Minute
	endingRunway  = time.Minute // an error
	clockOff      = time.Second
	oldEvent      = time.Minute
	reservedLeast = 10 * time.Second
)

// Judge says from all else what a person should look at.
func (i *Installation) Judge() {
	all := []Trouble{}
	for _, part := range [][]Trouble{
		i.roleTroubles(), i.silentTroubles(), i.processTroubles(), i.tagTroubles(), i.forecastTroubles(), i.enrichmentTroubles(), i.checkTroubles(), i.unreadTroubles(),
	} {
		all = append(all, part...)
	}
	slices.SortStableFunc(all, func(a, b Trouble) int { return compareBools(b.Severity == Error, a.Severity == Error) })
	i.Troubles = slices.Compact(all)
}

// roleTroubles are that nobody is there for a role. A part that is not known proves nothing.
func (i *Installation) roleTroubles() (all []Trouble) {
	if slices.ContainsFunc(i.Unread, func(u Unread) bool { return u.What == everything || u.What == reportsPart }) {
		return nil
	}
	if i.Totals.Workers == 0 {
		all = append(all, Trouble{Error, "workers", "none reports: nobody answers requests"})
	}
	if i.Totals.Loaders == 0 {
		all = append(all, Trouble{Error, "loaders", "none reports: nobody reserves segments, and workers live on memory"})
	}
	return all
}

func (i *Installation) silentTroubles() (all []Trouble) {
	for _, s := range i.Silent {
		if !s.Left {
			all = append(all, Trouble{Warning, "worker " + named(s.Instance, s.Host), "does not report, though it holds a worker ID: it died" + heardText(s.Heard, i.Taken) + ", or is paused or cut off"})
		}
	}
	return all
}

// heardText says when somebody was last heard of.
func heardText(heard, now time.Time) string {
	if heard.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (last heard of %s ago)", Duration(now.Sub(heard).Seconds()))
}

// named is a process as people know it.
func named(instance, host string) string {
	if host == "" {
		return instance
	}
	return host + " (" + instance + ")"
}

func (i *Installation) processTroubles() (all []Trouble) {
	for _, r := range i.Processes {
		what := string(r.Role) + " " + named(r.Instance, r.Host)
		add := func(severity Severity, format string, args ...any) {
			all = append(all, Trouble{severity, what, fmt.Sprintf(format, args...)})
		}
		i.loaderTroubles(&r, add)
		if r.Overloads != nil && r.Overloads.Now {
			add(Error, "is overloaded, and out of the queue groups until the waiting requests are handled; start more workers")
		} else if r.NotReady != "" && r.Stopped == "" {
			add(Error, "is not ready: %s", r.NotReady)
		}
		if r.Degraded != "" && r.Stopped == "" {
			add(Error, "%s", r.Degraded)
		}
		if r.Answers() {
			clockTroubles(&r, add)
		}
		if n := r.Stats.Grants.Below; n > 0 {
			add(Warning, "was granted %d ranges that had been granted before, and burnt them: the store went back", n)
		}
	}
	return all
}

// loaderTroubles are those of a loader's store.
func (i *Installation) loaderTroubles(r *worker.Report, add func(Severity, string, ...any)) {
	if r.Stopped != "" {
		add(Error, "grants nothing: %s; run idworker tag raise --all --by N", r.Stopped)
		return
	}
	if r.Outages == nil || !r.Outages.Now {
		return
	}
	strict := 0
	for _, t := range i.Tags {
		if t.Strict() && t.Rate > 0 {
			strict++
		}
	}
	ends := "no tag is in use"
	if first := i.EndFirst(1); len(first) > 0 {
		ends = fmt.Sprintf("memory ends first for %s, in %s", first[0].Name, Duration(first[0].Runway))
	}
	if strict > 0 {
		ends = fmt.Sprintf("%d strict tags in use have no IDs, %s", strict, strings.Replace(ends, "no tag", "no other", 1))
	}
	add(Error, "its store %s has failed for %s (%s); %s", r.Stats.Store, Duration(i.Taken.Sub(r.Outages.Since).Seconds()), r.Outages.Error, ends)
}

// clockTroubles are those of a worker ID.
func clockTroubles(r *worker.Report, add func(Severity, string, ...any)) {
	if r.Stats.NoWorker != "" {
		add(Warning, "has no worker ID, and answers no snowflake requests: %s", r.Stats.NoWorker)
	}
	if r.Clock == nil {
		return
	}
	if off := time.Duration(r.Clock.AheadMS) * time.Millisecond; off.Abs() > clockOff {
		add(Warning, "its clock is %v ahead of the NATS server's", off)
	}
	if r.Stats.WorkerID != nil && r.Clock.ReservedIn < reservedLeast.Seconds() {
		add(Warning, "its worker ID's time is reserved for %.0f s only: heartbeats fail", r.Clock.ReservedIn)
	}
}

// EndFirst are the tags that run out first if the store goes away now, n at most: those that are being used.
func (i *Installation) EndFirst(n int) (first []Tag) {
	for _, t := range i.Tags {
		if t.Rate > 0 && !t.Strict() {
			first = append(first, t)
		}
	}
	slices.SortFunc(first, byRunway)
	return first[:min(n, len(first))]
}

// maxTagTroubles bounds how many tags are named.
const maxTagTroubles = 5

// tagTroubles are tags that are being used and have little in memory.
func (i *Installation) tagTroubles() (all []Trouble) {
	short, unsupplied := 0, i.unsupplied()
	for _, t := range i.EndFirst(len(i.Tags)) {
		level := t.Level()
		if level == "" && (!unsupplied || t.Runway >= shortRunway.Seconds()) {
			continue
		}
		if short++; short > maxTagTroubles {
			continue
		}
		text := fmt.Sprintf("memory lasts for %s at %s IDs a second", Duration(t.Runway), Rate(t.Rate))
		if t.Parked > 0 {
			text += fmt.Sprintf(", and %d requests wait", t.Parked)
		}
		all = append(all, Trouble{cmp.Or(level, Warning), "tag " + t.Name, text})
	}
	if short > maxTagTroubles {
		all = append(all, Trouble{Warning, "tags", fmt.Sprintf("%d others have memory for less than %v", short-maxTagTroubles, shortRunway)})
	}
	return all
}

// Level is how bad it is that a tag has little in memory; empty if it is not.
func (t Tag) Level() Severity {
	switch {
	case !t.Short:
		return ""
	case t.Runway < endingRunway.Seconds():
		return Error
	}
	return Warning
}

// unsupplied reports whether what is in memory is all there is for now.
func (i *Installation) unsupplied() bool {
	return slices.ContainsFunc(i.Processes, func(r worker.Report) bool {
		return r.Stats.NoLoader != "" || r.Outages != nil && r.Outages.Now
	})
}

func (i *Installation) enrichmentTroubles() (all []Trouble) {
	for _, e := range i.Enrichments {
		what := "enrichment " + e.Source + " to " + e.Target
		waits := ""
		if e.Lag != nil {
			waits = fmt.Sprintf("; %s events wait", Count(int64(min(*e.Lag, math.MaxInt64))))
		}
		switch old := i.Taken.Sub(e.Oldest); {
		case e.Stalled:
			all = append(all, Trouble{Error, what, fmt.Sprintf("no enricher has been at work for %s: none runs, or it stands still and its log says why%s", Duration(i.Taken.Sub(e.Written).Seconds()), waits)})
		case !e.Oldest.IsZero() && old > oldEvent:
			all = append(all, Trouble{Warning, what, fmt.Sprintf("the oldest event that waits is %s old%s", Duration(old.Seconds()), waits)})
		}
	}
	return all
}

func (i *Installation) checkTroubles() (all []Trouble) {
	for _, c := range i.Checks {
		if c.Severity != "" {
			all = append(all, Trouble{c.Severity, "doctor: " + c.What, c.Text})
		}
	}
	return all
}

// unreadTroubles say that the picture has gaps.
func (i *Installation) unreadTroubles() (all []Trouble) {
	for _, u := range i.Unread {
		all = append(all, Trouble{Warning, "not known: " + u.What, u.Why})
	}
	return all
}

// Duration is seconds for people: 45 s, 12 min, 3.5 h.
func Duration(seconds float64) string {
	const minute, hour, day = 60, 3600, 24 * 3600
	switch {
	case seconds < 10:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 2*minute:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*hour:
		return fmt.Sprintf("%.0f min", seconds/minute)
	case seconds < 2*day:
		return fmt.Sprintf("%.0f h", seconds/hour)
	case seconds < 364*day:
		return fmt.Sprintf("%.0f days", seconds/day)
	}
	return "a year"
}

// Rate is IDs per second for people.
func Rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 10:
		return cmp.Or(strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", perSecond), "0"), "."), "0")
	}
	return Count(int64(min(perSecond+0.5, 1<<62))) // whatever somebody says
}

// Count is a number for people, with commas between thousands.
func Count(n int64) string {
	if n < 0 {
		return "-" + Count(-max(n, -math.MaxInt64)) // the least number has no counterpart
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Count(n/1000), n%1000)
}
