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

// Limits of problems, as in the alerts of docs/prometheus-rules.yml.
const (
	shortRunway  = 5 * time.Minute
	endingRunway = time.Minute // an error
	settled      = time.Minute // until then, first small segments look short
	oldEvent     = time.Minute
)

// judge sets the problems, errors first, given the reports with their tags.
func (i *Installation) judge(reports []worker.Report) {
	i.Troubles = []doctor.Finding{}
	for _, t := range doctor.Judge(i.Taken, reports, i.store) {
		// Missing reports prove nothing.
		if i.Known(reportsPart) || t.What != "workers" && t.What != "loaders" {
			i.Troubles = append(i.Troubles, t)
		}
	}
	i.judgeSilent()
	conflicting := 0
	for _, o := range i.Others {
		if o.Conflict {
			conflicting += o.Processes
		}
	}
	if conflicting > 0 {
		i.warn("other installations", "not counted here: their processes on the same subjects, %d", conflicting)
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
			i.warn("unknown: "+u.What, "%s", u.Why)
		}
	}
	slices.SortStableFunc(i.Troubles, func(a, b doctor.Finding) int {
		return cmp.Compare(a.Severity, b.Severity) // "error" before "warning"
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
			heard = fmt.Sprintf(" (last heartbeat %s ago)", i.Age(s.Heard))
		}
		i.warn(doctor.Name(worker.RoleWorker, s.Host, s.Instance), "holds a worker ID but does not report%s: dead, paused or disconnected", heard)
	}
}

// EndFirst returns the n tags in use that run out first if the store fails now:
// those with parked requests, then those with the shortest buffers.
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

// judgeTags finds tags with short buffers.
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
		i.warn("tags", "buffers of %s last less than 5 min", format.Of(more, "other"))
	}
}

// judge sets the severity of a short buffer, after a minute of use or while
// workers get no segments. Nothing fails as long as grants come in time.
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

// memory describes the tag's buffers for people.
func (t *Tag) memory() string {
	text := fmt.Sprintf("buffers last %s at %s a second", format.Duration(t.Runway), format.Of(format.Rate(t.Rate), "ID"))
	if t.Runway <= 0 {
		text = "a worker has none of its IDs buffered"
	}
	if t.Parked > 0 {
		text += ", with " + format.Of(t.Parked, "parked request")
	}
	return text
}

// judgeForecasts warns of limits less than a year ahead.
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

// judgeEnrichments finds enrichments with a backlog.
func (i *Installation) judgeEnrichments() {
	for _, e := range i.Enrichments {
		what, waits := "enrichment "+e.Source+" to "+e.Target, ""
		if e.Lag != nil {
			waits = "; " + format.Of(e.Waiting(), "waiting event")
		}
		switch {
		case e.Failing != "":
			i.trouble(doctor.Error, what, "stopped: %s%s", e.Failing, waits)
		case e.Stalled:
			i.trouble(doctor.Error, what,
				"no enricher has worked for %s: none runs, or one is blocked (see its log)%s", i.Age(e.Written), waits)
		case !e.Oldest.IsZero() && i.Taken.Sub(e.Oldest) > oldEvent:
			i.warn(what, "the oldest waiting event is %s old%s", i.Age(e.Oldest), waits)
		}
	}
}

// Notes returns the parts that the user may not read. Enrichments are not among
// them: their account may be another, as with nats.conf.
func (i *Installation) Notes() (notes []Unread) {
	for _, u := range i.Unread {
		if u.Denied && u.What != enrichmentsPart {
			notes = append(notes, u)
		}
	}
	return notes
}

// Summary returns the state in a line.
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
	case len(i.Notes()) > 0:
		return "No known problems, but parts are unknown"
	}
	return "All is well"
}
