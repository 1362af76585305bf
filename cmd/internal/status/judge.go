package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/worker"
)

// The limits of troubles are those of the alerts in docs/prometheus-rules.yml.
const (
	shortRunway  = 5 * time.Minute
	endingRunway = time.Minute // an error
	settled      = time.Minute // before that, a tag's first small segments look like a short memory
	oldEvent     = time.Minute
)

// rules find troubles, beside those that doctor finds with processes.
var rules = []func(*Installation) []doctor.Trouble{
	silentTroubles, foreignTroubles, tagTroubles, forecastTroubles, enrichmentTroubles, checkTroubles, unreadTroubles,
}

// judge sets the troubles, errors first, given the reports with their tags.
func (i *Installation) judge(reports []worker.Report) {
	i.Troubles = []doctor.Trouble{}
	for _, t := range doctor.Judge(i.Taken, reports) {
		if i.Knows(reportsPart) || t.What != "workers" && t.What != "loaders" { // missing reports prove nothing
			i.Troubles = append(i.Troubles, t)
		}
	}
	for _, rule := range rules {
		i.Troubles = append(i.Troubles, rule(i)...)
	}
	slices.SortStableFunc(i.Troubles, func(a, b doctor.Trouble) int {
		return cmp.Compare(a.Severity, b.Severity) // error before warning
	})
	i.Troubles = slices.Compact(i.Troubles)
}

func trouble(severity doctor.Severity, what, format string, args ...any) doctor.Trouble {
	return doctor.Trouble{Severity: severity, What: what, Text: fmt.Sprintf(format, args...)}
}

// firstFive names five, and counts the others.
func firstFive(all []doctor.Trouble, others string) []doctor.Trouble {
	if more := len(all) - 5; more > 0 {
		return append(all[:5], trouble(doctor.Warning, "tags", others, more))
	}
	return all
}

func silentTroubles(i *Installation) (all []doctor.Trouble) {
	for _, s := range i.Silent {
		who, heard := s.Instance, ""
		if s.Host != "" {
			who = fmt.Sprintf("%s (%s)", s.Host, s.Instance)
		}
		if !s.Heard.IsZero() {
			heard = fmt.Sprintf(" (last heard of %s ago)", i.Age(s.Heard))
		}
		all = append(all, trouble(doctor.Warning, "worker "+who,
			"does not report, though it holds a worker ID: it died%s, or is paused or cut off", heard))
	}
	return all
}

func foreignTroubles(i *Installation) (all []doctor.Trouble) {
	if i.foreign > 0 {
		all = append(all, trouble(doctor.Warning, "other installations",
			"%d of their processes answer on the same subjects, and are not counted here", i.foreign))
	}
	return all
}

// EndFirst returns the n tags in use that run out first if the store goes away
// now: those whose requests wait already, then those whose memory ends first.
func (i *Installation) EndFirst(n int) (first []Tag) {
	for _, t := range i.Tags {
		if !t.Strict() && (t.Rate > 0 || t.Parked > 0 || t.Runway <= 0) {
			first = append(first, t)
		}
	}
	slices.SortFunc(first, func(a, b Tag) int {
		return cmp.Or(cmp.Compare(min(b.Parked, 1), min(a.Parked, 1)), byRunway(a, b))
	})
	return first[:min(n, len(first))]
}

// tagTroubles are tags with little in memory.
func tagTroubles(i *Installation) (all []doctor.Trouble) {
	unsupplied := slices.ContainsFunc(i.Processes, func(r worker.Report) bool {
		return r.Stats.NoLoader != "" || r.Outages != nil && r.Outages.Now
	})
	for n := range i.Tags {
		i.Tags[n].judge(unsupplied)
	}
	for _, t := range i.EndFirst(len(i.Tags)) {
		if t.Level != "" {
			all = append(all, trouble(t.Level, "tag "+t.Name, "%s", t.memory()))
		}
	}
	return firstFive(all, "%d others have memory for less than 5 min")
}

// judge sets how bad it is that the tag has little in memory: after a minute of
// use, or while workers are not supplied.
func (t *Tag) judge(unsupplied bool) {
	low := !t.Strict() && t.Runway < shortRunway.Seconds()
	t.Short = low && (t.Parked > 0 || t.Rate > 0 && t.use.Seconds >= settled.Seconds())
	switch {
	case !t.Short && (!low || !unsupplied):
		t.Level = ""
	case t.Runway < endingRunway.Seconds():
		t.Level = doctor.Error
	default:
		t.Level = doctor.Warning
	}
}

// memory is the state of the tag's memory for people.
func (t *Tag) memory() string {
	text := fmt.Sprintf("memory lasts for %s at %s IDs a second", doctor.Duration(t.Runway), Rate(t.Rate))
	if t.Runway <= 0 {
		text = "a worker has none of its IDs in memory"
	}
	if t.Parked > 0 {
		text += fmt.Sprintf(", and %d requests wait", t.Parked)
	}
	return text
}

// forecastTroubles are limits that are less than a year ahead.
func forecastTroubles(i *Installation) (all []doctor.Trouble) {
	for _, date := range i.LayoutEnds {
		if date.IsSoon(i.Taken) {
			all = append(all, trouble(doctor.Warning, "layout "+i.Layout, "%s", date.LayoutWarning()))
		}
	}
	var soon []Tag
	for _, t := range i.Tags {
		if t.Forecast != nil && t.Forecast.RunsOut[0].IsSoon(i.Taken) {
			soon = append(soon, t)
		}
	}
	slices.SortFunc(soon, func(a, b Tag) int {
		return cmp.Or(a.Forecast.RunsOut[0].At.Compare(b.Forecast.RunsOut[0].At), byName(a, b))
	})
	var tags []doctor.Trouble
	for _, t := range soon {
		tags = append(tags, trouble(doctor.Warning, "tag "+t.Name, "%s", t.Forecast.Warning(t.Forecast.RunsOut[0], i.Taken)))
	}
	return append(all, firstFive(tags, "%d others reach 2^31, 2^53 or their end within a year")...)
}

func enrichmentTroubles(i *Installation) (all []doctor.Trouble) {
	for _, e := range i.Enrichments {
		what, waits := "enrichment "+e.Source+" to "+e.Target, ""
		if e.Lag != nil {
			waits = fmt.Sprintf("; %s events wait", e.Waiting())
		}
		switch {
		case e.Stalled:
			all = append(all, trouble(doctor.Error, what,
				"no enricher has been at work for %s: none runs, or it stands still and its log says why%s", i.Age(e.Written), waits))
		case !e.Oldest.IsZero() && i.Taken.Sub(e.Oldest) > oldEvent:
			all = append(all, trouble(doctor.Warning, what, "the oldest event that waits is %s old%s", i.Age(e.Oldest), waits))
		}
	}
	return all
}

func checkTroubles(i *Installation) (all []doctor.Trouble) {
	for _, c := range i.Checks {
		if c.Severity != "" {
			all = append(all, trouble(c.Severity, "doctor: "+c.What, "%s", c.Text))
		}
	}
	return all
}

// unreadTroubles are the parts that could not be read.
func unreadTroubles(i *Installation) (all []doctor.Trouble) {
	for _, u := range i.Unread {
		if !u.Denied {
			all = append(all, trouble(doctor.Warning, "not known: "+u.What, "%s", u.Why))
		}
	}
	return all
}

// Summary is the state in one line.
func (i *Installation) Summary() string {
	errors := 0
	for _, t := range i.Troubles {
		if t.Severity == doctor.Error {
			errors++
		}
	}
	switch {
	case len(i.Troubles) > 0:
		return fmt.Sprintf("Errors: %d, warnings: %d", errors, len(i.Troubles)-errors)
	case len(i.Unread) > 0:
		return "All is well, as far as is known"
	}
	return "All is well"
}
