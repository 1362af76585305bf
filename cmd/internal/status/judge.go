package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/worker"
)

// The limits of troubles are those of the alerts in docs/prometheus-rules.yml.
const (
	shortRunway  = 5 * time.Minute
	endingRunway = time.Minute // an error
	settled      = time.Minute // before that, a tag's first small segments look like a short memory
	oldEvent     = time.Minute
)

// judge sets the troubles, errors first, given the reports with their tags.
func (i *Installation) judge(reports []worker.Report) {
	i.Troubles = []doctor.Finding{}
	for _, t := range doctor.Judge(i.Taken, reports) {
		if i.Knows(reportsPart) || t.What != "workers" && t.What != "loaders" { // missing reports prove nothing
			i.Troubles = append(i.Troubles, t)
		}
	}
	i.judgeSilent()
	if i.foreign > 0 {
		i.warn("other installations", "%d of their processes answer on the same subjects, and are not counted here", i.foreign)
	}
	i.judgeTags()
	i.judgeForecasts()
	i.judgeEnrichments()
	for _, c := range i.Checks {
		if c.Severity != "" {
			i.trouble(c.Severity, "doctor: "+c.What, "%s", c.Text)
		}
	}
	for _, u := range i.Unread {
		if !u.Denied {
			i.warn("not known: "+u.What, "%s", u.Why)
		}
	}
	slices.SortStableFunc(i.Troubles, func(a, b doctor.Finding) int {
		return cmp.Compare(a.Severity, b.Severity) // error before warning
	})
	i.Troubles = slices.Compact(i.Troubles)
}

func (i *Installation) trouble(severity doctor.Severity, what, format string, args ...any) {
	i.Troubles = append(i.Troubles, doctor.Finding{Severity: severity, What: what, Text: fmt.Sprintf(format, args...)})
}

func (i *Installation) warn(what, format string, args ...any) {
	i.trouble(doctor.Warning, what, format, args...)
}

// judgeSilent warns of processes that do not report.
func (i *Installation) judgeSilent() {
	for _, s := range i.Silent {
		heard := ""
		if !s.Heard.IsZero() {
			heard = fmt.Sprintf(" (last heard of %s ago)", i.Age(s.Heard))
		}
		i.warn(doctor.Name(worker.RoleWorker, s.Host, s.Instance), "does not report, though it holds a worker ID: it died%s, or is paused or cut off", heard)
	}
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

// judgeTags finds tags with little in memory.
func (i *Installation) judgeTags() {
	unsupplied := slices.ContainsFunc(i.Processes, func(r worker.Report) bool {
		return r.Stats.NoLoader != "" || r.Outages != nil && r.Outages.Now
	})
	for n := range i.Tags {
		i.Tags[n].judge(unsupplied)
	}
	low := slices.DeleteFunc(i.EndFirst(len(i.Tags)), func(t Tag) bool { return t.Level == "" })
	for _, t := range low[:min(doctor.MaxNamed, len(low))] {
		i.trouble(t.Level, "tag "+t.Name, "%s", t.memory())
	}
	if more := len(low) - doctor.MaxNamed; more > 0 {
		i.warn("tags", "%d others have memory for less than 5 min", more)
	}
}

// judge sets how bad it is that the tag has little in memory, after a minute of
// use or while workers are not supplied. Nothing fails while grants come in time.
func (t *Tag) judge(unsupplied bool) {
	low := !t.Strict() && t.Runway < shortRunway.Seconds()
	t.Short = low && (t.Parked > 0 || t.Rate > 0 && t.use.Seconds >= settled.Seconds())
	switch {
	case !t.Short && (!low || !unsupplied):
		t.Level = ""
	case t.Runway < endingRunway.Seconds() && (unsupplied || t.Parked > 0):
		t.Level = doctor.Error
	default:
		t.Level = doctor.Warning
	}
}

// memory is the state of the tag's memory for people.
func (t *Tag) memory() string {
	text := fmt.Sprintf("memory lasts for %s at %s IDs a second", format.Duration(t.Runway), format.Rate(t.Rate))
	if t.Runway <= 0 {
		text = "a worker has none of its IDs in memory"
	}
	if t.Parked > 0 {
		text += fmt.Sprintf(", and %d requests wait", t.Parked)
	}
	return text
}

// judgeForecasts warns of limits that are less than a year ahead.
func (i *Installation) judgeForecasts() {
	for _, date := range i.LayoutEnds {
		if date.IsSoon(i.Taken) {
			i.warn("layout "+i.Layout, "%s", date.LayoutWarning())
		}
	}
	uses := make(map[string]forecast.Use)
	for _, t := range i.Tags {
		uses[t.Name] = t.use
	}
	soon, _ := doctor.JudgeNumbers(i.Taken, uses)
	i.Troubles = append(i.Troubles, soon...)
}

// judgeEnrichments finds enrichments that fall behind.
func (i *Installation) judgeEnrichments() {
	for _, e := range i.Enrichments {
		what, waits := "enrichment "+e.Source+" to "+e.Target, ""
		if e.Lag != nil {
			waits = fmt.Sprintf("; %s events wait", e.Waiting())
		}
		switch {
		case e.Stalled:
			i.trouble(doctor.Error, what,
				"no enricher has been at work for %s: none runs, or it stands still and its log says why%s", i.Age(e.Written), waits)
		case !e.Oldest.IsZero() && i.Taken.Sub(e.Oldest) > oldEvent:
			i.warn(what, "the oldest event that waits is %s old%s", i.Age(e.Oldest), waits)
		}
	}
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
