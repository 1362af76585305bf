package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// Severity is the severity of a finding; empty if all is well.
type Severity string

// Severities. A finding is an error if requests fail because of it, or will
// soon.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is the result of a check, or a problem for an operator.
type Finding struct {
	Severity Severity `json:"severity,omitempty"`
	What     string   `json:"what"` // the process, tag, enrichment or check
	Text     string   `json:"text"`

	err error // if Explain can add a hint to it
}

// Denied reports whether the check failed because the user lacks a right. Then
// it shows nothing about the installation.
func (f Finding) Denied() bool {
	missing, denied := new(MissingError), new(natsconn.DeniedError)
	return f.What != inbox && (errors.As(f.err, &missing) || errors.As(f.err, &denied))
}

// Limits of warnings, as in the alerts of docs/prometheus-rules.yml.
const (
	clockOff      = time.Second
	reservedLeast = 10 * time.Second
)

// raiseAll is the command that ends a regression, and an interrupted raise.
const raiseAll = "idworker tag raise --all"

// Judge returns the problems of an installation's processes, given all their
// reports: roles without a process, and processes that do not work. Status and
// doctor share it. store is false if no loader has ever agreed on a store: then
// processes for snowflake IDs may be all.
func Judge(now time.Time, reports []worker.Report, store bool) (all []Finding) {
	workers, loaders, snowflakes := Count(reports)
	segments := store || workers+loaders > 0 || snowflakes == 0
	if workers == 0 && segments {
		all = append(all, Finding{Severity: Error, What: "workers", Text: "none reports, so requests fail"})
	}
	if loaders == 0 && segments {
		all = append(all, Finding{Severity: Error, What: "loaders", Text: "none reports, so workers live on their buffers"})
	}
	for _, r := range reports {
		add := func(severity Severity, format string, args ...any) {
			all = append(all, Finding{Severity: severity, What: Name(r.Role, r.Host, r.Instance), Text: fmt.Sprintf(format, args...)})
		}
		switch {
		case r.RaiseBy > 0:
			add(Error, "grants nothing: %s; the latest raise was too small by %s; raise all tags again: %s", r.Stopped, format.Of(r.RaiseBy, "ID"), raiseAll)
		case r.Stopped != "":
			add(Error, "grants nothing: %s; run %s", r.Stopped, raiseAll)
		case r.Outages != nil && r.Outages.Now:
			add(Error, "store %s has failed for %s (%s); %s", r.Stats.Store, format.Duration(now.Sub(r.Outages.Since).Seconds()), r.Outages.Error, memoryEnds(reports))
		}
		switch {
		case r.Overloads != nil && r.Overloads.Now:
			add(Error, "overloaded, and off the queue groups until its backlog clears; start more workers")
		case r.NotReady != "" && r.Stopped == "":
			add(Error, "not ready: %s", r.NotReady)
		}
		if r.Degraded != "" && r.Stopped == "" {
			add(Error, "%s", r.Degraded)
		}
		if r.AnswersSegments() && r.Stats.NoWorker != "" {
			add(Warning, "no worker ID for snowflake requests: %s", r.Stats.NoWorker)
		}
		if r.Answers() && r.Clock != nil {
			if off := time.Duration(r.Clock.AheadMS) * time.Millisecond; off.Abs() > clockOff {
				add(Warning, "clock is %v ahead of the NATS server's", off)
			}
			if r.Stats.WorkerID != nil && r.Clock.ReservedIn < reservedLeast.Seconds() {
				add(Warning, "clock reserved for only %.0f s more: heartbeats fail", r.Clock.ReservedIn)
			}
		}
		if n := r.Stats.Grants.Below; n > 0 {
			add(Warning, "discarded %s granted before: the store regressed", format.Of(n, "range"))
		}
	}
	return slices.Concat(all, failures(reports), endings(reports))
}

// failures names the tags that loaders cannot grant although their store works.
func failures(reports []worker.Report) (all []Finding) {
	why, more := make(map[string]string), 0
	for _, r := range reports {
		if f := r.Failures; f != nil {
			for _, tag := range f.Named {
				why[tag.Tag] = tag.Error
			}
			more = max(more, f.Tags-len(f.Named))
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(why)) {
		if len(all) == MaxNamed {
			more += len(why) - MaxNamed
			break
		}
		all = append(all, Finding{Severity: Error, What: "tag " + tag, Text: "cannot be granted, so requests get 503 once buffers are used up: " + why[tag]})
	}
	if more > 0 {
		all = append(all, Finding{Severity: Error, What: "tags", Text: format.Of(more, "more tag") + " cannot be granted"})
	}
	return all
}

// endings names the tags that loaders found to end, and the limit of all tags in
// a table whose column is narrow.
func endings(reports []worker.Report) (all []Finding) {
	var exhausted, soon []string
	more := 0
	for _, r := range reports {
		if e := r.Endings; e != nil {
			exhausted, soon = append(exhausted, e.ExhaustedTags...), append(soon, e.SoonTags...)
			more = max(more, e.Exhausted+e.Soon-len(e.ExhaustedTags)-len(e.SoonTags))
		}
	}
	limit := Limit(reports)
	name := func(severity Severity, tags []string, text string) {
		slices.Sort(tags)
		tags = slices.Compact(tags)
		for _, tag := range tags[:min(MaxNamed, len(tags))] {
			all = append(all, Finding{Severity: severity, What: "tag " + tag, Text: text})
		}
		more += max(len(tags)-MaxNamed, 0)
	}
	end := "its numbers end at 2^63"
	if limit > 0 {
		end = fmt.Sprintf("its numbers end at %d, where column max_id ends; make it a BIGINT without bounds", limit)
	}
	name(Error, exhausted, "exhausted, so requests get 507 once buffers are used up: "+end)
	soon = slices.DeleteFunc(soon, func(tag string) bool { return slices.Contains(exhausted, tag) })
	name(Warning, soon, "soon exhausted, less than a tenth is left: "+end)
	if more > 0 {
		all = append(all, Finding{Severity: Warning, What: "tags", Text: format.Of(more, "more tag") + " exhausted or soon exhausted"})
	}
	if limit > 0 {
		all = append(all, Finding{Severity: Warning, What: "store", Text: fmt.Sprintf("tags end at %d: column max_id must be BIGINT without bounds", limit)})
	}
	return all
}

// Limit returns the number at which tags end, if it is below 2^63 - 1, or 0.
func Limit(reports []worker.Report) (limit int64) {
	for _, r := range reports {
		if limit == 0 || r.Limit > 0 && r.Limit < limit {
			limit = r.Limit
		}
	}
	return limit
}

// Count returns the number of processes that answer requests for tags, of those
// that reserve segments, and of those that issue snowflake IDs only.
func Count(reports []worker.Report) (workers, loaders, snowflakes int) {
	for _, r := range reports {
		if r.AnswersSegments() {
			workers++
		}
		if r.Loads() {
			loaders++
		}
		if r.Role == worker.RoleSnowflake {
			snowflakes++
		}
	}
	return workers, loaders, snowflakes
}

// Name formats a process for people. With all roles it is a "process".
func Name(role worker.Role, host, instance string) string {
	what := string(role)
	if role == worker.RoleAll {
		what = "process"
	}
	if host == "" {
		return what + " " + instance
	}
	return fmt.Sprintf("%s %s (%s)", what, host, instance)
}

// memoryEnds describes how soon workers without a store run out of IDs.
func memoryEnds(reports []worker.Report) string {
	strict := make(map[string]bool)
	var first *worker.TagStats // of trend tags
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
	ends := "no tag that is buffered is in use"
	if first != nil {
		ends = fmt.Sprintf("buffers run out first for %s, in %s", first.Tag, format.Duration(first.Runway))
	}
	if len(strict) > 0 {
		ends = fmt.Sprintf("no IDs for %s in use, %s", format.Of(len(strict), "strict tag"), strings.Replace(ends, "no tag", "no other tag", 1))
	}
	return ends
}

// ofProcesses counts the processes of each role, and adds the findings of
// [Judge].
func ofProcesses(now time.Time, reports []worker.Report, store bool) (all []Finding) {
	workers, loaders, snowflakes := Count(reports)
	for _, role := range []struct {
		name  string
		count int
	}{{"workers", workers}, {"loaders", loaders}, {"snowflake processes", snowflakes}} {
		if role.count > 0 {
			all = append(all, answer(role.name, fmt.Sprintf("%d running", role.count), nil))
		}
	}
	return append(all, Judge(now, reports, store)...)
}

// ofPayload judges the largest message that a NATS server accepts.
func ofPayload(where string, most int64) Finding {
	var small error
	if most < worker.LeastPayload {
		small = fmt.Errorf("%w: %d bytes for %s", ErrPayload, most, where)
	}
	return answer("max_payload", fmt.Sprintf("%d bytes", most), small)
}

// ofPayloads warns of the smallest limit of a process, if that is too small and
// below that of this connection.
func ofPayloads(own int64, reports []worker.Report) (all []Finding) {
	smallest, where := min(own, worker.LeastPayload), ""
	for _, r := range reports {
		if r.MaxPayload > 0 && r.MaxPayload < smallest {
			smallest, where = r.MaxPayload, Name(r.Role, r.Host, r.Instance)
		}
	}
	if where != "" {
		all = append(all, ofPayload(where, smallest))
	}
	return all
}

// ofLayout returns the limits of snowflake IDs.
func ofLayout(now time.Time, layout snowflake.Layout) (all []Finding) {
	for _, date := range forecast.OfLayout(layout, now) {
		var soon error
		if date.IsSoon(now) {
			soon = fmt.Errorf("%w: %s", ErrRunsOut, date.LayoutWarning())
		}
		all = append(all, answer("end of the layout", date.LayoutWarning(), soon))
	}
	return all
}

// ofTags returns the tags that run out of numbers, or else the first to reach a
// limit. Each worker reports its busiest tags; other tags are nearly idle, or
// far from a limit.
func ofTags(now time.Time, reports []worker.Report) []Finding {
	uses := make(map[string]forecast.Use) // of all workers together
	limit := Limit(reports)
	for _, r := range reports {
		for _, t := range r.Stats.Tags {
			t.Use.Limit = limit
			uses[t.Tag] = uses[t.Tag].Join(t.Use)
		}
	}
	all, first := JudgeNumbers(now, uses)
	switch {
	case len(all) > 0 || len(uses) == 0:
	case first == "":
		all = append(all, answer("numbers of tags", "too little data for a forecast", nil))
	default:
		all = append(all, answer("numbers of tags", first, nil))
	}
	all = append(all, aboveTime(now, uses)...)
	for _, r := range reports {
		if more := r.Stats.Active - len(r.Stats.Tags); more > 0 {
			text := fmt.Sprintf("workers report only their busiest tags; %s has %d more", r.Instance, more)
			return append(all, answer("numbers of tags", text, nil))
		}
	}
	return all
}

// aboveTime warns of the tags that a raise of all tags without a number cannot
// lift to the time, because they lie above it.
func aboveTime(now time.Time, uses map[string]forecast.Use) []Finding {
	limit := now.UnixMicro() + register.Slack
	above := slices.DeleteFunc(slices.Sorted(maps.Keys(uses)), func(tag string) bool { return uses[tag].High <= limit })
	if len(above) == 0 {
		return nil
	}
	named := strings.Join(above[:min(MaxNamed, len(above))], ", ")
	if more := len(above) - MaxNamed; more > 0 {
		named += " and " + format.Of(more, "more tag")
	}
	text := fmt.Sprintf("above the time in microseconds since 1970: %s; "+
		"a later raise without a number lifts each by %d and a million for each second since its latest grant; see docs/backup-restore.md", named, register.Slack)
	return []Finding{{Severity: Warning, What: "numbers of tags", Text: text}}
}

// MaxNamed is the number of tags that are named for the same problem. The rest
// is counted.
const MaxNamed = 5

// JudgeNumbers warns of the tags that reach a limit within a year, the soonest
// first. The text names the first tag to reach a limit at any time; it is empty
// without enough data.
func JudgeNumbers(now time.Time, uses map[string]forecast.Use) (soon []Finding, first string) {
	dates := make(map[string]forecast.Date) // each tag's first limit
	for tag, use := range uses {
		if all := use.Dates(now); len(all) > 0 {
			dates[tag] = all[0]
		}
	}
	tags := slices.SortedFunc(maps.Keys(dates), func(a, b string) int {
		return cmp.Or(dates[a].At.Compare(dates[b].At), cmp.Compare(a, b))
	})
	if len(tags) > 0 {
		first = fmt.Sprintf("tag %s reaches a limit first: %s", tags[0], dates[tags[0]])
	}
	warn := func(what, text string) {
		soon = append(soon, Finding{Warning, what, text, fmt.Errorf("%w: %s", ErrRunsOut, text)})
	}
	tags = slices.DeleteFunc(tags, func(tag string) bool { return !dates[tag].IsSoon(now) })
	for _, tag := range tags[:min(MaxNamed, len(tags))] {
		warn("tag "+tag, uses[tag].Warning(dates[tag], now))
	}
	if more := len(tags) - MaxNamed; more > 0 {
		warn("tags", format.Of(more, "more tag")+" with 2^31, 2^53 or the end within a year")
	}
	return soon, first
}
