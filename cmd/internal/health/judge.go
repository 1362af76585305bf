package health

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/forecast"
)

// Limits of problems, as in the alerts of docs/prometheus-rules.yml.
const (
	clockOff      = time.Second
	reservedLeast = 10 * time.Second
	shortRunway   = 5 * time.Minute
	endingRunway  = time.Minute     // an error
	settled       = 5 * time.Minute // after the first use: until then, a buffer is small
	oldEvent      = time.Minute
)

// maxNamed is the number of tags listed by name per problem. The rest are only
// counted.
const maxNamed = 5

// raiseAll is the command that ends an interrupted raise, and without a backup
// also a regression.
const raiseAll = "idworker tag raise --all"

// trouble returns the diagnosis of a problem.
func trouble(severity Severity, what, format string, args ...any) Diagnosis {
	return Diagnosis{Severity: severity, What: what, Text: fmt.Sprintf(format, args...)}
}

// judge sets the diagnoses, given the reports with their tags. store is false if
// no loader has ever agreed on a store: then processes for snowflake IDs may be
// all.
func (i *Installation) judge(reports []worker.Report, store bool) {
	i.found = nil
	if !i.partial {
		i.found = slices.Concat(i.judgeLayout(), i.judgeOutage(reports), i.judgeRoles(reports, store))
		for _, r := range reports {
			i.found = append(i.found, i.judgeProcess(r, "; "+memoryEnds(reports))...)
		}
		i.found = slices.Concat(i.found, judgeDecisions(reports), i.judgeWitnesses(reports), judgeFailures(reports), judgeEndings(reports), i.judgeMoves(reports), i.judgeSilent(), i.judgeOthers(),
			i.judgePayloads(reports), i.judgeTags(), i.judgeNumbers(reports))
	}
	i.found = slices.Concat(i.found, i.judgeEnrichments(), i.judgeUnread())
	i.Troubles = []Diagnosis{}
	for _, d := range i.found {
		if d.Severity != "" {
			i.Troubles = append(i.Troubles, d)
		}
	}
	for _, d := range i.Checks {
		if d.Severity != "" {
			d.What = "doctor: " + d.What
			i.Troubles = append(i.Troubles, d)
		}
	}
	worstFirst(i.Troubles)
	i.Troubles = slices.CompactFunc(i.Troubles, func(a, b Diagnosis) bool {
		return a.Severity == b.Severity && a.What == b.What && a.Text == b.Text
	})
}

// worstFirst sorts problems.
func worstFirst(all []Diagnosis) {
	slices.SortStableFunc(all, func(a, b Diagnosis) int { return cmp.Compare(a.Severity, b.Severity) }) // "error" before "warning"
}

// Failed reports whether there is an error.
func (i *Installation) Failed() bool {
	return slices.ContainsFunc(i.Troubles, func(d Diagnosis) bool { return d.Severity == Error })
}

// Readiness returns why a process is not ready, or else its worst problem.
func Readiness(now time.Time, r worker.Report, maxSkew time.Duration) (notReady, but error) {
	if r.NotReady != "" {
		return errors.New(r.NotReady), nil
	}
	if all := Own(now, r, maxSkew); len(all) > 0 {
		return nil, errors.New(all[0].String())
	}
	return nil, nil
}

// Own returns the problems in a process's own report, the worst first. An empty
// What means the process. Its clock may be off by maxSkew, or any time if that
// is 0.
func Own(now time.Time, r worker.Report, maxSkew time.Duration) []Diagnosis {
	i, alone := &Installation{Taken: now, maxSkew: maxSkew}, []worker.Report{r}
	all := i.judgeProcess(r, "")
	for n := range all {
		all[n].What = ""
	}
	all = slices.Concat(all, judgeFailures(alone), judgeEndings(alone))
	worstFirst(all)
	return all
}

// judgeRoles finds roles without a process, if reports could be read: missing
// reports prove nothing.
func (i *Installation) judgeRoles(reports []worker.Report, store bool) (all []Diagnosis) {
	workers, loaders, snowflakes := countRoles(reports)
	for _, role := range []struct {
		name, missing string
		count         int
		needed        bool
	}{
		{"workers", "none reports, so requests fail", workers, true},
		{"loaders", "none reports, so workers live on their buffers", loaders, true},
		{"snowflake processes", "", snowflakes, false},
	} {
		switch {
		case role.count > 0:
			all = append(all, Diagnosis{What: role.name, Text: fmt.Sprintf("%d running", role.count)})
		case role.needed && i.Known(reportsPart) && (store || workers+loaders > 0 || snowflakes == 0):
			all = append(all, trouble(Error, role.name, "%s", role.missing))
		}
	}
	return all
}

// judgeProcess finds why a process does not work. outage is what follows an
// outage of its store.
func (i *Installation) judgeProcess(r worker.Report, outage string) (all []Diagnosis) {
	add := func(severity Severity, short, format string, args ...any) {
		d := trouble(severity, processName(r.Role, r.Host, r.Instance), format, args...)
		d.Short = short
		all = append(all, d)
	}
	switch {
	case r.RaiseBy > 0:
		add(Error, "grants nothing", "grants nothing: %s; the latest raise was too small by %s; raise all tags again: %s", r.Stopped, format.Of(r.RaiseBy, "ID"), raiseAll)
	case r.Stopped != "":
		add(Error, "grants nothing", "grants nothing: %s; run idworker restore DIR --raise-anyway, or without a backup %s", r.Stopped, raiseAll)
	}
	if r.Overloads != nil && r.Overloads.Now {
		add(Error, "overloaded", "overloaded, and off the queue groups until its backlog clears; start more workers")
	} else if r.NotReady != "" && r.Stopped == "" {
		add(Error, "not ready", "not ready: %s", r.NotReady)
	}
	if r.Degraded != "" && r.Stopped == "" {
		add(Error, cmp.Or(r.Stats.NoLoader, "degraded"), "%s", r.Degraded)
	}
	if r.Stopped == "" && r.Outages != nil && r.Outages.Now {
		add(Error, "store fails", "store %s has failed for %s (%s)%s", r.Stats.Store, i.Age(r.Outages.Since), r.Outages.Error, outage)
	}
	if r.AnswersSegments() && r.Stats.NoWorker != "" {
		add(Warning, "no worker ID", "no worker ID for snowflake requests: %s", r.Stats.NoWorker)
	}
	if r.Answers() && r.Clock != nil {
		off := time.Duration(r.Clock.AheadMS) * time.Millisecond
		if severity := severityOf(clockError(off, i.maxSkew)); severity != "" {
			add(severity, "clock is off", "clock is %v ahead of the NATS server's", off)
		}
		if severity, short, text := i.judgeHold(r); severity != "" {
			add(severity, short, "%s", text)
		}
	}
	if n := r.Stats.Grants.Below; n > 0 {
		add(Warning, "store regressed", "discarded %s granted before: the store regressed", format.Of(n, "range"))
	}
	return all
}

// State returns the worst diagnosis of a process.
func (i *Installation) State(r worker.Report) Diagnosis {
	all := append(i.judgeProcess(r, ""), Diagnosis{Short: "ready", Text: "ready"})
	worstFirst(all[:len(all)-1])
	return all[0]
}

// clockError judges the difference of a clock from the NATS server's, which may
// be maxSkew, or any if that is 0.
func clockError(ahead, maxSkew time.Duration) error {
	switch {
	case maxSkew > 0 && ahead.Abs() > maxSkew:
		return fmt.Errorf("%w: %v ahead of the server's, at most %v allowed", ErrClockOff, ahead, maxSkew)
	case ahead.Abs() > clockOff:
		return fmt.Errorf("%w: %v ahead of the server's", errClockAhead, ahead)
	}
	return nil
}

// judgeDecisions compares the decisions that workers have learned with those that
// loaders grant under. A worker with an earlier one learns the other within
// seconds, unless the command ended between the decision and its announcement.
func judgeDecisions(reports []worker.Report) (all []Diagnosis) {
	granting := int64(0)
	for _, r := range reports {
		if r.Loads() && r.Stopped == "" {
			granting = max(granting, r.Floor)
		}
	}
	for _, r := range reports {
		name := processName(r.Role, r.Host, r.Instance)
		switch {
		case granting == 0 || r.BufferFloor == 0 || r.BufferFloor == granting:
		case r.BufferFloor < granting:
			all = append(all, trouble(Warning, name, "may hold IDs from before the latest raise of all tags; if that command was interrupted, run it again"))
		default:
			all = append(all, trouble(Error, name, "has learned that new tags begin at %d, and loaders grant as if at %d: the register lacks a raise; run %s", r.BufferFloor, granting, raiseAll))
		}
	}
	return all
}

// judgeWitnesses finds loaders without a witness. That is a problem if doctor
// found that the servers may lose writes, which only a witness would show.
func (i *Installation) judgeWitnesses(reports []worker.Report) (all []Diagnosis) {
	severity := Severity("")
	if slices.ContainsFunc(i.Checks, func(d Diagnosis) bool { return d.What == Sync && d.Severity != "" }) {
		severity = Warning
	}
	for _, r := range reports {
		if w := r.Witness; w != nil && w.Problem != "" {
			all = append(all, trouble(severity, processName(r.Role, r.Host, r.Instance), "no witness that counts: %s", w.Problem))
		}
	}
	return all
}

// judgeFailures names the tags that loaders cannot grant although their store works.
func judgeFailures(reports []worker.Report) (all []Diagnosis) {
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
		if len(all) == maxNamed {
			more += len(why) - maxNamed
			break
		}
		all = append(all, trouble(Error, "tag "+tag, "cannot be granted, so requests get 503 once buffers are used up: %s", why[tag]))
	}
	if more > 0 {
		all = append(all, trouble(Error, "tags", "%s cannot be granted", format.Of(more, "more tag")))
	}
	return all
}

// judgeMoves names a tag whose row another program moves. Loaders of this
// installation explain their own gaps, so it needs the reports of all of them.
func (i *Installation) judgeMoves(reports []worker.Report) []Diagnosis {
	var since time.Time
	var discarded []store.Move
	for _, r := range reports {
		switch {
		case !r.Role.Loads():
		case r.Moves == nil:
			return nil
		case r.Moves.Since.After(since):
			since = r.Moves.Since
			fallthrough
		default:
			discarded = append(discarded, r.Moves.Discarded...)
		}
	}
	if len(i.Silent) > 0 {
		return nil
	}
	gaps := make(map[string]int)
	for _, r := range reports {
		if r.Moves == nil {
			continue
		}
		for _, m := range r.Moves.Skipped {
			if m.At.After(since) && !slices.ContainsFunc(discarded, m.Overlaps) {
				gaps[m.Tag]++
			}
		}
	}
	maps.DeleteFunc(gaps, func(_ string, n int) bool { return n < store.MinMoves })
	if len(gaps) == 0 {
		return nil
	}
	tags := slices.Sorted(maps.Keys(gaps))
	named := "tag " + tags[0]
	if len(tags) > 1 {
		named += " and others"
	}
	return []Diagnosis{trouble(Warning, "table", "another program moves rows, as of %s: Leaf's servers, or a second installation of idworker on this table; "+
		"no register has the other's grants, so IDs are unique only while the database keeps every commit", named)}
}

// judgeEndings names the tags that loaders found to end, and the limit of all tags in
// a table whose column is narrow.
func judgeEndings(reports []worker.Report) (all []Diagnosis) {
	var exhausted, soon []string
	more := 0
	for _, r := range reports {
		if e := r.Endings; e != nil {
			exhausted, soon = append(exhausted, e.ExhaustedTags...), append(soon, e.SoonTags...)
			more = max(more, e.Exhausted+e.Soon-len(e.ExhaustedTags)-len(e.SoonTags))
		}
	}
	limit := lowestLimit(reports)
	name := func(severity Severity, tags []string, text string) {
		slices.Sort(tags)
		tags = slices.Compact(tags)
		for _, tag := range tags[:min(maxNamed, len(tags))] {
			all = append(all, trouble(severity, "tag "+tag, "%s", text))
		}
		more += max(len(tags)-maxNamed, 0)
	}
	end := "its numbers end at 2^63, or earlier if a CHECK of its table bounds max_id"
	if limit > 0 {
		end = fmt.Sprintf("its numbers end at %d, where column max_id ends; make it a BIGINT without bounds", limit)
	}
	name(Error, exhausted, "exhausted, so requests get 507 once buffers are used up: "+end)
	soon = slices.DeleteFunc(soon, func(tag string) bool { return slices.Contains(exhausted, tag) })
	name(Warning, soon, "soon exhausted, less than a tenth is left: "+end)
	if more > 0 {
		all = append(all, trouble(Warning, "tags", "%s exhausted or soon exhausted", format.Of(more, "more tag")))
	}
	if limit > 0 {
		all = append(all, trouble(Warning, "store", "tags end at %d: column max_id must be BIGINT without bounds", limit))
	}
	return all
}

// lowestLimit returns the number at which tags end, if it is below 2^63 - 1, or 0.
func lowestLimit(reports []worker.Report) (limit int64) {
	for _, r := range reports {
		if limit == 0 || r.Limit > 0 && r.Limit < limit {
			limit = r.Limit
		}
	}
	return limit
}

// countRoles returns the number of processes that answer requests for tags, of those
// that reserve segments, and of those that issue snowflake IDs only.
func countRoles(reports []worker.Report) (workers, loaders, snowflakes int) {
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

// processName formats a process for people. With all roles it is a "process".
func processName(role worker.Role, host, instance string) string {
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

// judgeSilent warns of processes that do not report.
func (i *Installation) judgeSilent() (all []Diagnosis) {
	for _, s := range i.Silent {
		heard := ""
		if !s.Heard.IsZero() {
			heard = fmt.Sprintf(" (last heartbeat %s ago)", i.Age(s.Heard))
		}
		all = append(all, trouble(Warning, processName(worker.RoleWorker, s.Host, s.Instance),
			"holds a worker ID but does not report%s: dead, paused or disconnected", heard))
	}
	return all
}

// judgeOthers warns of processes of other installations that are in conflict.
func (i *Installation) judgeOthers() []Diagnosis {
	conflicting := 0
	for _, o := range i.Others {
		if o.Conflict {
			conflicting += o.Processes
		}
	}
	if conflicting == 0 {
		return nil
	}
	return []Diagnosis{trouble(Warning, "other installations", "not counted here: their processes on the same subjects, %d", conflicting)}
}

// judgeUnread warns of unknown parts.
func (i *Installation) judgeUnread() (all []Diagnosis) {
	for _, u := range i.Unread {
		if !u.Denied {
			all = append(all, trouble(Warning, "unknown: "+u.What, "%s", u.Why))
		}
	}
	return all
}

// EndFirst returns the n tags in use that run out first if the store fails now:
// those with parked requests, then those with the shortest buffers.
func (i *Installation) EndFirst(n int) (first []TagState) {
	for _, t := range i.Tags {
		if !t.Strict() && (t.Rate > 0 || t.Parked > 0 || t.Runway <= 0) {
			first = append(first, t)
		}
	}
	slices.SortFunc(first, func(a, b TagState) int {
		return cmp.Or(cmp.Compare(min(b.Parked, 1), min(a.Parked, 1)), byRunway(a, b))
	})
	return first[:min(n, len(first))]
}

// judgeTags finds tags with short buffers.
func (i *Installation) judgeTags() (all []Diagnosis) {
	unsupplied := slices.ContainsFunc(i.Processes, func(r worker.Report) bool {
		return r.Stats.NoLoader != "" || r.Outages != nil && r.Outages.Now
	})
	for n := range i.Tags {
		i.Tags[n].judge(unsupplied)
	}
	low := slices.DeleteFunc(i.EndFirst(len(i.Tags)), func(t TagState) bool { return t.Level == "" })
	for _, t := range low[:min(maxNamed, len(low))] {
		all = append(all, trouble(t.Level, "tag "+t.Name, "%s", t.memory()))
	}
	if more := len(low) - maxNamed; more > 0 {
		all = append(all, trouble(Warning, "tags", "buffers of %s last less than 5 min", format.Of(more, "other")))
	}
	return all
}

// judge sets the severity of a short buffer, after five minutes of use or while
// workers get no segments. Nothing fails as long as grants come in time.
func (t *TagState) judge(unsupplied bool) {
	low := !t.Strict() && t.Runway < shortRunway.Seconds()
	t.Short = low && (t.Parked > 0 || t.Rate > 0 && t.use.Seconds >= settled.Seconds())
	switch {
	case !t.Short && (!low || !unsupplied):
		t.Level = ""
	case t.Runway < endingRunway.Seconds() && (unsupplied || t.Parked > 0):
		t.Level = Error
	default:
		t.Level = Warning
	}
}

// memory describes the tag's buffers for people.
func (t *TagState) memory() string {
	text := fmt.Sprintf("buffers last %s at %s a second", format.Duration(t.Runway), format.Of(format.Rate(t.Rate), "ID"))
	if t.Runway <= 0 {
		text = "a worker has none of its IDs buffered"
	}
	if t.Parked > 0 {
		text += ", with " + format.Of(t.Parked, "parked request")
	}
	return text
}

// payloadCheck is the subject of the limit for messages.
const payloadCheck = "max_payload"

// payloadError judges the largest message that a NATS server accepts.
func payloadError(where string, most int64) error {
	if most >= worker.LeastPayload {
		return nil
	}
	return fmt.Errorf("%w: %d bytes for %s", ErrPayload, most, where)
}

// judgePayloads warns of the smallest limit of a process, if that is too small
// and below that of this connection, which a check judges.
func (i *Installation) judgePayloads(reports []worker.Report) (all []Diagnosis) {
	smallest, where := int64(worker.LeastPayload), ""
	if i.payload > 0 {
		smallest = min(i.payload, smallest)
	}
	for _, r := range reports {
		if r.MaxPayload > 0 && r.MaxPayload < smallest {
			smallest, where = r.MaxPayload, processName(r.Role, r.Host, r.Instance)
		}
	}
	if where != "" {
		all = append(all, i.diagnose(payloadCheck, "", payloadError(where, smallest)))
	}
	return all
}

// judgeLayout names the limits of snowflake IDs, and warns of those less than a
// year ahead.
func (i *Installation) judgeLayout() (all []Diagnosis) {
	for _, date := range i.LayoutEnds {
		var soon error
		if date.IsSoon(i.Taken) {
			soon = fmt.Errorf("%w: %s", ErrRunsOut, date.LayoutWarning())
		}
		all = append(all, i.diagnose("layout "+i.Layout, date.LayoutWarning(), soon))
	}
	return all
}

// judgeNumbers warns of the tags that reach a limit within a year, the soonest
// first, or else names the first to reach one. Each worker reports its busiest
// tags; other tags are nearly idle, or far from a limit.
func (i *Installation) judgeNumbers(reports []worker.Report) (all []Diagnosis) {
	const what = "numbers of tags"
	dates := make(map[string]forecast.Date) // each tag's first limit
	for _, t := range i.Tags {
		if t.Forecast != nil {
			dates[t.Name] = t.Forecast.RunsOut[0]
		}
	}
	tags := slices.SortedFunc(maps.Keys(dates), func(a, b string) int {
		return cmp.Or(dates[a].At.Compare(dates[b].At), cmp.Compare(a, b))
	})
	uses := make(map[string]forecast.Use)
	for _, t := range i.Tags {
		uses[t.Name] = t.use
	}
	soon := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return !dates[tag].IsSoon(i.Taken) })
	for _, tag := range soon[:min(maxNamed, len(soon))] {
		all = append(all, i.diagnose("tag "+tag, "", fmt.Errorf("%w: %s", ErrRunsOut, uses[tag].Warning(dates[tag], i.Taken))))
	}
	switch more := len(soon) - maxNamed; {
	case more > 0:
		all = append(all, i.diagnose("tags", "", fmt.Errorf("%w: %s with 2^31, 2^53 or the end within a year", ErrRunsOut, format.Of(more, "more tag"))))
	case len(soon) > 0 || len(i.Tags) == 0:
	case len(tags) == 0:
		all = append(all, Diagnosis{What: what, Text: "too little data for a forecast"})
	default:
		all = append(all, Diagnosis{What: what, Text: fmt.Sprintf("tag %s reaches a limit first: %s", tags[0], dates[tags[0]])})
	}
	all = append(all, aboveTime(i.Taken, uses)...)
	for _, r := range reports {
		if more := r.Stats.Active - len(r.Stats.Tags); more > 0 {
			text := fmt.Sprintf("workers report only their busiest tags; %s has %d more", r.Instance, more)
			return append(all, Diagnosis{What: what, Text: text})
		}
	}
	return all
}

// fullSoon is the time before a template is full when warnings begin. Raising its
// limit takes one command.
const fullSoon = 30 * 24 * time.Hour

// judgeTemplate forecasts when a dated template is full. The rate is that of the
// tags with dates in the latest 30 days, or if tags have no days, 366, or if they
// have only years, 3,660. It needs dates of a quarter of that time.
func judgeTemplate(t templates.Template, tags []string, now time.Time) Diagnosis {
	const day = 24 * time.Hour
	window := 3660 * day
	switch {
	case strings.HasSuffix(t.Dated, "dd"):
		window = 30 * day
	case strings.HasSuffix(t.Dated, "MM"):
		window = 366 * day
	}
	recent, since := 0, now
	for _, tag := range tags {
		earliest := t.Earliest(tag)
		begins := earliest.Add(time.Duration(t.Ahead) * time.Second)
		if earliest.IsZero() || begins.After(now) {
			continue
		}
		if begins.Before(since) {
			since = begins
		}
		if now.Sub(begins) <= window {
			recent++
		}
	}
	span := min(now.Sub(since), window)
	what, state := "template "+t.Pattern, fmt.Sprintf("%s of %s", format.Count(len(tags)), format.Of(t.MaxTags, "tag"))
	more := fmt.Sprintf("raise its limit: idworker tag set '%s' --max-tags N", t.Pattern)
	if int64(len(tags)) >= t.MaxTags {
		return trouble(Error, what, "full with %s, so new tags get 429; %s", state, more)
	}
	var dates []forecast.Date
	if span >= window/4 {
		use := forecast.Use{High: int64(len(tags)), Rate: float64(recent) / span.Seconds(), Seconds: span.Seconds(), Limit: t.MaxTags}
		dates = use.Dates(now)
	}
	if len(dates) == 0 {
		return Diagnosis{What: what, Text: state + ", too little data for a forecast"}
	}
	end := dates[len(dates)-1].At
	text := fmt.Sprintf("full on %s: %s, %s of the last %d days", forecast.Day(end), state, format.Count(recent), int(span/day))
	if end.Sub(now) < fullSoon {
		return trouble(Warning, what, "%s; %s", text, more)
	}
	return Diagnosis{What: what, Text: text}
}

// aboveTime warns of the tags that a raise of all tags without a number cannot
// lift to the time, because they lie above it.
func aboveTime(now time.Time, uses map[string]forecast.Use) []Diagnosis {
	limit := now.UnixMicro() + register.Slack
	above := slices.DeleteFunc(slices.Sorted(maps.Keys(uses)), func(tag string) bool { return uses[tag].High <= limit })
	if len(above) == 0 {
		return nil
	}
	named := strings.Join(above[:min(maxNamed, len(above))], ", ")
	if more := len(above) - maxNamed; more > 0 {
		named += " and " + format.Of(more, "more tag")
	}
	return []Diagnosis{trouble(Warning, "numbers of tags", "above the time in microseconds since 1970: %s; "+
		"a later raise without a number lifts each by %d and a million for each second since its latest grant; see docs/backup-restore.md", named, register.Slack)}
}

// judgeEnrichments judges the targets of enrichments that the user may look at,
// and finds enrichments that stopped, or have a backlog.
func (i *Installation) judgeEnrichments() (all []Diagnosis) {
	for _, e := range i.Enrichments {
		waits := ""
		if e.Lag != nil {
			waits = "; " + format.Of(e.Waiting(), "waiting event")
		}
		if e.checked {
			all = append(all, i.diagnose(e.name(), "the target is as it should be", e.target))
		}
		switch {
		case i.partial:
		case e.Failing != "":
			all = append(all, trouble(Error, e.name(), "stopped: %s%s", e.Failing, waits))
		case e.Stalled:
			all = append(all, trouble(Error, e.name(),
				"no enricher has worked for %s: none runs, or one is blocked (see its log)%s", i.Age(e.Written), waits))
		case !e.Oldest.IsZero() && i.Taken.Sub(e.Oldest) > oldEvent:
			all = append(all, trouble(Warning, e.name(), "the oldest waiting event is %s old%s", i.Age(e.Oldest), waits))
		}
	}
	return all
}

// name formats the enrichment for people.
func (e EnrichmentState) name() string { return "enrichment " + e.Source + " to " + e.Target }

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
		if t.Severity == Error {
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
