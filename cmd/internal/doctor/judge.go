package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// Severity is how bad something is.
type Severity string

// The severities. Something wrong is an error if requests fail because of it,
// or will soon.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Trouble is something that a person should look at.
type Trouble struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"` // of which process, tag or enrichment, or of what else
	Text     string   `json:"text"`
}

// The limits of warnings are those of the alerts in docs/prometheus-rules.yml.
const (
	clockOff      = time.Second
	reservedLeast = 10 * time.Second
)

// Judge returns what is wrong with the processes of an installation, given the
// reports of all of them: roles that no process fills, and processes that do not
// do their work. Status and doctor give this same judgement.
func Judge(now time.Time, reports []worker.Report) (all []Trouble) {
	workers, loaders := count(reports)
	if workers == 0 {
		all = append(all, Trouble{Error, "workers", "none reports: nobody answers requests"})
	}
	if loaders == 0 {
		all = append(all, Trouble{Error, "loaders", "none reports: nobody reserves segments, and workers live on memory"})
	}
	for _, r := range reports {
		add := func(severity Severity, format string, args ...any) {
			all = append(all, Trouble{severity, processName(&r), fmt.Sprintf(format, args...)})
		}
		switch {
		case r.Stopped != "":
			add(Error, "grants nothing: %s; run idworker tag raise --all --by N", r.Stopped)
		case r.Outages != nil && r.Outages.Now:
			add(Error, "its store %s has failed for %s (%s); %s", r.Stats.Store, Duration(now.Sub(r.Outages.Since).Seconds()), r.Outages.Error, memoryEnds(reports))
		}
		switch {
		case r.Overloads != nil && r.Overloads.Now:
			add(Error, "is overloaded, and out of the queue groups until the waiting requests are handled; start more workers")
		case r.NotReady != "" && r.Stopped == "":
			add(Error, "is not ready: %s", r.NotReady)
		}
		if r.Degraded != "" && r.Stopped == "" {
			add(Error, "%s", r.Degraded)
		}
		if r.Answers() && r.Stats.NoWorker != "" {
			add(Warning, "has no worker ID, and answers no snowflake requests: %s", r.Stats.NoWorker)
		}
		if r.Answers() && r.Clock != nil {
			if off := time.Duration(r.Clock.AheadMS) * time.Millisecond; off.Abs() > clockOff {
				add(Warning, "its clock is %v ahead of the NATS server's", off)
			}
			if r.Stats.WorkerID != nil && r.Clock.ReservedIn < reservedLeast.Seconds() {
				add(Warning, "its worker ID's time is reserved for %.0f s only: heartbeats fail", r.Clock.ReservedIn)
			}
		}
		if n := r.Stats.Grants.Below; n > 0 {
			add(Warning, "was granted %d ranges that had been granted before, and burnt them: the store went back", n)
		}
	}
	return all
}

// count returns how many processes answer requests, and how many reserve segments.
func count(reports []worker.Report) (workers, loaders int) {
	for _, r := range reports {
		if r.Answers() {
			workers++
		}
		if r.Loads() {
			loaders++
		}
	}
	return workers, loaders
}

// processName is a process as people know it. One with all roles is no "all".
func processName(r *worker.Report) string {
	what := string(r.Role)
	if r.Role == worker.RoleAll {
		what = "process"
	}
	if r.Host == "" {
		return what + " " + r.Instance
	}
	return fmt.Sprintf("%s %s (%s)", what, r.Host, r.Instance)
}

// memoryEnds is for how long workers go on without a store.
func memoryEnds(reports []worker.Report) string {
	strict := make(map[string]bool)
	var first *worker.TagStats // of the others
	for _, r := range reports {
		for _, t := range r.Stats.Tags {
			switch {
			case t.Rate <= 0:
			case t.Order == string(store.Strict):
				strict[t.Tag] = true
			case first == nil || t.Runway < first.Runway:
				first = &t
			}
		}
	}
	ends := "no tag is in use"
	if first != nil {
		ends = fmt.Sprintf("memory ends first for %s, in %s", first.Tag, Duration(first.Runway))
	}
	if len(strict) > 0 {
		ends = fmt.Sprintf("%d strict tags in use have no IDs, %s", len(strict), strings.Replace(ends, "no tag", "no other", 1))
	}
	return ends
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

// ofProcesses are how many processes of each role run, and what [Judge] finds
// wrong with them.
func ofProcesses(now time.Time, reports []worker.Report) (all []Finding) {
	workers, loaders := count(reports)
	if workers > 0 {
		all = append(all, Finding{What: "workers", Good: fmt.Sprintf("%d running", workers)})
	}
	if loaders > 0 {
		all = append(all, Finding{What: "loaders", Good: fmt.Sprintf("%d running", loaders)})
	}
	for _, t := range Judge(now, reports) {
		all = append(all, Finding{What: t.What, Err: errors.New(t.Text), Warning: t.Severity == Warning})
	}
	return all
}

// ofLayout are the limits of snowflake IDs.
func ofLayout(now time.Time, layout snowflake.Layout) (all []Finding) {
	for _, date := range forecast.OfLayout(layout, now) {
		all = append(all, limit("end of the layout", date.LayoutWarning(), date.IsSoon(now)))
	}
	return all
}

// limit is a finding about numbers that end, a warning if that is soon.
func limit(what, text string, soon bool) Finding {
	if soon {
		return Finding{What: what, Err: fmt.Errorf("%w: %s", ErrRunsOut, text), Warning: true}
	}
	return Finding{What: what, Good: text}
}

// maxTagsRunningOut bounds how many tags are named.
const maxTagsRunningOut = 5

// ofTags warns of the tags that reach a limit within a year, or names the first
// one to reach any. Each worker reports its busiest tags: another is far from its
// limit, or nearly idle.
func ofTags(now time.Time, reports []worker.Report) (all []Finding) {
	const numbers = "numbers of tags"
	uses := make(map[string]forecast.Use) // by all workers together
	for _, r := range reports {
		for _, t := range r.Stats.Tags {
			uses[t.Tag] = uses[t.Tag].Join(t.Use)
		}
	}
	first := make(map[string]forecast.Date) // that each tag reaches
	for tag, use := range uses {
		if dates := use.Dates(now); len(dates) > 0 {
			first[tag] = dates[0]
		}
	}
	tags := slices.SortedFunc(maps.Keys(first), func(a, b string) int {
		return cmp.Or(first[a].At.Compare(first[b].At), cmp.Compare(a, b))
	})
	soon := 0
	for soon < len(tags) && first[tags[soon]].IsSoon(now) {
		soon++
	}
	switch {
	case len(uses) > 0 && len(tags) == 0:
		all = append(all, limit(numbers, "too little was measured to say when any run out", false))
	case len(tags) > 0 && soon == 0:
		all = append(all, limit(numbers, fmt.Sprintf("tag %s is the first at a limit: %s", tags[0], first[tags[0]]), false))
	}
	for _, tag := range tags[:min(soon, maxTagsRunningOut)] {
		all = append(all, limit("tag "+tag, uses[tag].Warning(first[tag], now), true))
	}
	if more := soon - maxTagsRunningOut; more > 0 {
		all = append(all, limit(numbers, fmt.Sprintf("%d more within a year, at 2^31, 2^53 or their end", more), true))
	}
	for _, r := range reports {
		if more := r.Stats.Active - len(r.Stats.Tags); more > 0 {
			text := fmt.Sprintf("each worker reports its %d busiest tags; %s has %d more", worker.MaxReportTags, r.Instance, more)
			return append(all, limit(numbers, text, false))
		}
	}
	return all
}
