package health

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/forecast"
)

// TestSnowflakeOnly: without a store, processes for snowflake IDs may be all of
// an installation. A worker beside them needs a loader.
func TestSnowflakeOnly(t *testing.T) {
	t.Parallel()
	flakes, w := worker.Report{Role: worker.RoleSnowflake}, worker.Report{Role: worker.RoleWorker}
	alone, beside := new(Installation).judgeRoles([]worker.Report{flakes}, false), new(Installation).judgeRoles([]worker.Report{flakes, w}, false)
	if got := lines(append(alone, beside...)); len(got) != 4 || !strings.HasPrefix(got[2], "error loaders: ") {
		t.Errorf("%q, want that only the worker lacks loaders", got)
	}
}

// TestProcesses: a role without a process is an error, and so is everything
// that stops a process from working; an uncertain fault is a warning.
func TestProcesses(t *testing.T) {
	t.Parallel()
	w := worker.Report{Instance: "w", Role: worker.RoleWorker}
	l := worker.Report{Instance: "l", Role: worker.RoleLoader}
	both := worker.Report{Instance: "b", Host: "h", Role: worker.RoleAll}
	flakes := worker.Report{Instance: "s", Role: worker.RoleSnowflake}
	id := int64(7)
	degraded, failing, stopped, overloaded, off := w, l, both, w, w
	degraded.Degraded = "no loader answers"
	failing.Stats.Store, failing.Outages = "jetstream", &worker.OutageStats{Now: true, Since: now.Add(-time.Minute), Error: "refused"}
	stopped.Stopped, stopped.NotReady = "the register regressed", "it grants nothing"
	short := stopped
	short.RaiseBy = 1180
	overloaded.Overloads, overloaded.NotReady = &worker.OverloadStats{Now: true}, "overloaded"
	off.Stats.WorkerID, off.Clock, off.Stats.Grants.Below = &id, &worker.ClockStats{AheadMS: -1700, ReservedIn: 3}, 2
	busy, unnamed := w, w
	busy.Stats.Tags = []worker.TagStats{
		{Tag: "a", Order: "trend", Rate: 1, Runway: 90}, {Tag: "b", Order: "trend", Rate: 1, Runway: 80},
		{Tag: "idle", Order: "trend", Runway: 1}, {Tag: "s", Order: "strict", Rate: 1},
	}
	ungranted := l
	ungranted.Failures = &worker.FailureStats{Tags: 3, Named: []worker.TagFailure{{Tag: "a", Error: "row missing"}}}
	unnamed.NotReady, unnamed.Stats.NoWorker = "starting", "all are taken"
	for _, c := range []struct {
		reports []worker.Report
		want    []string
	}{
		{[]worker.Report{flakes}, []string{"ok snowflake processes: 1 running", "error workers: none reports", "error loaders: none reports"}},
		{[]worker.Report{flakes, l}, []string{"ok snowflake processes: 1 running", "ok loaders: 1 running", "error workers: none reports"}},
		{nil, []string{"error workers: none reports, so requests fail", "error loaders: none reports, so workers live on their buffers"}},
		{[]worker.Report{w, l}, []string{"ok workers: 1 running", "ok loaders: 1 running"}},
		{[]worker.Report{both}, []string{"ok workers: 1 running", "ok loaders: 1 running"}},
		{[]worker.Report{w}, []string{"error loaders: none reports"}},
		{[]worker.Report{l, l}, []string{"ok loaders: 2 running", "error workers: none reports"}},
		{[]worker.Report{degraded, l}, []string{"error worker w: no loader answers"}},
		{[]worker.Report{w, failing}, []string{"error loader l: store jetstream has failed for 60 s (refused); no tag that is buffered is in use"}},
		{[]worker.Report{busy, failing}, []string{"(refused); no IDs for 1 strict tag in use, buffers run out first for b, in 80 s"}},
		{[]worker.Report{stopped}, []string{"error process h (b): grants nothing: the register regressed; run idworker restore DIR --raise-anyway, or without a backup idworker tag raise --all"}},
		{[]worker.Report{short}, []string{"error process h (b): grants nothing: the register regressed; the latest raise was too small by 1,180 IDs; raise all tags again: idworker tag raise --all"}},
		{[]worker.Report{overloaded, l}, []string{"error worker w: overloaded, and off"}},
		{[]worker.Report{unnamed, l}, []string{"error worker w: not ready: starting", "warning worker w: no worker ID for snowflake requests: all are taken"}},
		{[]worker.Report{w, ungranted}, []string{
			"error tag a: cannot be granted, so requests get 503 once buffers are used up: row missing", "error tags: 2 more tags cannot be granted",
		}},
		{[]worker.Report{off, l}, []string{
			"warning worker w: clock is -1.7s ahead of the NATS server's", "warning worker w: clock reserved for only 3 s more: heartbeats fail",
			"warning worker w: discarded 2 ranges granted before: the store regressed",
		}},
	} {
		var got []string
		for _, line := range diagnosed(now, c.reports) {
			if !strings.Contains(line, "numbers of tags: ") && !strings.Contains(line, ": buffers last ") {
				got = append(got, line)
			}
		}
		for _, want := range c.want {
			if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, want) }) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		wrong := func(lines []string) (n int) {
			for _, line := range lines {
				if !strings.HasPrefix(line, "ok ") {
					n++
				}
			}
			return n
		}
		if wrong(got) != wrong(c.want) {
			t.Errorf("found %q, want %q", got, c.want)
		}
	}
}

// TestPayload: a NATS server that does not accept the largest report is warned
// of once, with its limit: this connection's server, or the worst of the
// processes'.
func TestPayload(t *testing.T) {
	t.Parallel()
	of := func(instance string, most int64) worker.Report {
		return worker.Report{Instance: instance, Role: worker.RoleWorker, MaxPayload: most}
	}
	for _, c := range []struct {
		own       int64
		processes []worker.Report
		want      []string
	}{
		{1 << 20, nil, []string{"ok max_payload: 1048576 bytes"}},
		{1 << 20, []worker.Report{of("old", 0), of("a", 1<<20), of("b", worker.LeastPayload)}, []string{"ok max_payload: 1048576 bytes"}},
		{65536, []worker.Report{of("a", 65536)}, []string{"warning max_payload: max_payload is small, so status may lack tags: 65536 bytes for this connection"}},
		{1 << 20, []worker.Report{of("a", 65536), of("b", 32768)}, []string{
			"ok max_payload: 1048576 bytes", "warning max_payload: max_payload is small, so status may lack tags: 32768 bytes for worker b",
		}},
	} {
		i := &Installation{payload: c.own}
		own := i.diagnose(payloadCheck, fmt.Sprintf("%d bytes", c.own), payloadError("this connection", c.own))
		got := lines(append([]Diagnosis{own}, i.judgePayloads(c.processes)...))
		if !slices.Equal(got, c.want) {
			t.Errorf("found %q, want %q", got, c.want)
		}
	}
}

// lines formats diagnoses.
func lines(all []Diagnosis) (lines []string) {
	for _, d := range all {
		lines = append(lines, fmt.Sprintf("%s %s", cmp.Or(d.Severity, "ok"), d))
	}
	return lines
}

// diagnosed are the lines about reports.
func diagnosed(when time.Time, reports []worker.Report) []string {
	return lines(merged(when, reports, func(c *collection) { c.agreed.store = "jetstream" }).Diagnoses())
}

// numbers are the lines about numbers of tags.
func numbers(when time.Time, reports []worker.Report) (all []string) {
	for _, line := range diagnosed(when, reports) {
		if strings.Contains(line, " numbers of tags: ") || strings.Contains(line, ": numbers run out: ") {
			all = append(all, line)
		}
	}
	return all
}

// TestRunningOut: doctor warns of limits less than a year ahead, and otherwise
// names the first.
func TestRunningOut(t *testing.T) {
	now := now.AddDate(0, 0, 1)
	in := func(days int64) forecast.Use { return used("", days).Use }
	for _, c := range []struct {
		uses map[string]forecast.Use
		want string
	}{
		{map[string]forecast.Use{"a": {High: 1<<31 - 1}}, "ok numbers of tags: too little data for a forecast"},
		{map[string]forecast.Use{"a": in(2000), "b": in(1000)}, "ok numbers of tags: tag b reaches a limit first: 2^31 on 2029-08-19"},
		{map[string]forecast.Use{"a": in(2000), "b": in(100)}, "warning tag b: numbers run out: its IDs reach 2^31 in 100 days, on 2027-03-03, at a rate of 1/s, as in the last 24 h"},
		{
			map[string]forecast.Use{"a": in(1), "b": in(2), "c": in(3), "d": in(4), "e": in(5), "f": in(6), "g": in(2000)},
			"warning tag a|warning tag b|warning tag c|warning tag d|warning tag e|warning tags: numbers run out: 1 more tag with 2^31, 2^53 or the end within a year",
		},
	} {
		var reports []worker.Report
		for tag, use := range c.uses {
			reports = append(reports, worker.Report{Stats: worker.Stats{SupplyFigures: worker.SupplyFigures{Active: 1, Tags: []worker.TagStats{{Tag: tag, Use: use}}}}})
		}
		got := numbers(now, reports)
		want := strings.Split(c.want, "|")
		if len(got) != len(want) {
			t.Errorf("%q, want %q", got, want)
			continue
		}
		for n := range want {
			if !strings.HasPrefix(got[n], want[n]) {
				t.Errorf("%q, want %q", got[n], want[n])
			}
		}
	}
}

// TestFullTemplates: a dated template is warned of a month before it is full, if
// the dates of its tags are evidence enough.
func TestFullTemplates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	daily := func(n int) (tags []string) { // until today, none on Sundays
		for at := now; len(tags) < n; at = at.AddDate(0, 0, -1) {
			if at.Weekday() != time.Sunday {
				tags = append(tags, "invoice."+at.Format("20060102"))
			}
		}
		return tags
	}
	monthly := func(n int) (tags []string) {
		for at := now; len(tags) < n; at = at.AddDate(0, -1, 1-at.Day()) {
			tags = append(tags, "invoice."+at.Format("200601"))
		}
		return tags
	}
	later := func(n int) (tags []string) { // from tomorrow
		for i := range n {
			tags = append(tags, "invoice."+now.AddDate(0, 0, i+1).Format("20060102"))
		}
		return tags
	}
	many := func(n int) (tags []string) { // of customers, today
		for i := range n {
			tags = append(tags, fmt.Sprint("invoice.", i, ".20261126"))
		}
		return tags
	}
	for _, c := range []struct {
		dated string
		most  int64
		tags  []string
		want  string
	}{
		{"yyyyMMdd", 400, daily(300), "ok template invoice.>: full on 2027-03-21: 300 of 400 tags, 26 of the last 30 days"},
		{"yyyyMMdd", 325, daily(300), "warning template invoice.>: full on 2026-12-25: 300 of 325 tags, 26 of the last 30 days; raise its limit: idworker tag set 'invoice.>' --max-tags N"},
		{"yyyyMMdd", 326, daily(300), "ok template invoice.>: full on 2026-12-26: "},
		{"yyyyMMdd", 300, daily(300), "error template invoice.>: full with 300 of 300 tags, so new tags get 429; raise its limit: "},
		{"yyyyMMdd", 1e6, daily(300), "ok template invoice.>: 300 of 1,000,000 tags, too little data for a forecast"}, // in 3,000 years
		{"yyyyMMdd", 10, daily(7), "warning template invoice.>: full on 2026-11-29: 7 of 10 tags, 7 of the last 7 days"},
		{"yyyyMMdd", 10, daily(6), "ok template invoice.>: 6 of 10 tags, too little data for a forecast"},
		{"yyyyMMdd", 1000, many(900), "ok template invoice.>: 900 of 1,000 tags, too little data for a forecast"},
		{"yyyyMMdd", 1000, append(many(900), daily(200)[100:]...), "error"},
		{"yyyyMMdd", 2000, append(many(900), daily(200)[100:]...), "ok template invoice.>: full on 2026-12-29: 1,000 of 2,000 tags, 900 of the last 30 days"},
		{"yyyyMMdd", 400, append(daily(300), later(50)...), "ok template invoice.>: full on 2027-01-23: 350 of 400 tags, 26 of the last 30 days"},
		{"yyyyMMdd", 10, []string{"invoice.other", "invoice.20270101"}, "ok template invoice.>: 2 of 10 tags, too little data for a forecast"},
		{"yyyyMMdd", 10, nil, "ok template invoice.>: 0 of 10 tags, too little data for a forecast"},
		{"yyyyMM", 25, monthly(24), "ok template invoice.>: full on 2026-12-27: 24 of 25 tags, 12 of the last 366 days"},
		{"yyyy", 9, []string{"invoice.2026", "invoice.2025", "invoice.2024"}, "ok template invoice.>: full on 2032-09-16: 3 of 9 tags, 3 of the last 1060 days"},
	} {
		template := templates.Template{Pattern: "invoice.>", MaxTags: c.most, Dates: templates.Dates{Dated: c.dated, Ahead: 3600}}
		if got := lines([]Diagnosis{judgeTemplate(template, c.tags, now)})[0]; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s, %d of %d: %q, want %q", c.dated, len(c.tags), c.most, got, c.want)
		}
	}
}

// TestAboveTime: doctor names the tags that a raise without a number would lift
// from where they are.
func TestAboveTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	raised := now.UnixMicro() + register.Slack // by two raises at once
	report := func(above ...string) (r worker.Report) {
		r.Stats.Tags = []worker.TagStats{{Tag: "low", Use: forecast.Use{High: 5}}, {Tag: "raised", Use: forecast.Use{High: raised}}}
		for _, tag := range above {
			r.Stats.Tags = append(r.Stats.Tags, worker.TagStats{Tag: tag, Use: forecast.Use{High: raised + 1}})
		}
		return r
	}
	const text = "warning numbers of tags: above the time in microseconds since 1970: "
	for _, c := range []struct {
		reports []worker.Report
		want    string
	}{
		{[]worker.Report{report()}, ""},
		{[]worker.Report{report("b"), report("a", "b")}, text + "a, b; a later raise without a number lifts each by 10000000000 and a million"},
		{[]worker.Report{report("g", "f", "e", "d", "c", "b", "a")}, text + "a, b, c, d, e and 2 more tags; "},
	} {
		got := slices.DeleteFunc(numbers(now, c.reports), func(line string) bool { return strings.HasPrefix(line, "ok ") })
		if len(got) > 1 || !strings.HasPrefix(strings.Join(got, ""), c.want) || len(got) > 0 && c.want == "" {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

const day = 24 * 60 * 60

// used is a tag that reaches 2^31 after some days.
func used(tag string, days int64) worker.TagStats {
	return worker.TagStats{Tag: tag, Order: "trend", Rate: 1, Runway: 1e6, Use: forecast.Use{High: 1<<31 - days*day, Rate: 1, Seconds: day}}
}

// TestForecasts warns of limits less than a year ahead, the soonest first.
// Later limits are shown without a warning. Without data there is no forecast.
func TestForecasts(t *testing.T) {
	t.Parallel()
	unmeasured := used("unmeasured", 3)
	unmeasured.Use.Seconds = 59
	// As a worker reports it after a minute.
	ahead := used("soon", 200)
	ahead.Use.Seconds = 60
	ahead.Use.Rate *= 100
	// Ends in 2033.
	layout, err := snowflake.ParseLayout("38:1ms/w13/s12@1735689600000")
	if err != nil {
		t.Fatal(err)
	}
	reports := []worker.Report{
		reportOf("a", worker.RoleAll, used("soon", 300), used("far", 366), unmeasured, worker.TagStats{Tag: "fresh", Rate: 1, Runway: 1e6}),
		reportOf("b", worker.RoleAll, ahead),
	}
	lasts := func(c *collection) { c.layout = layout }
	i := merged(now, reports, lasts)
	want := "warning tag soon: numbers run out: its IDs reach 2^31 in 200 days, on 2027-06-10, at a rate of 1/s, as in the last 24 h"
	if got := troublesOf(i); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, tag := range i.Tags {
		want := map[string]string{"soon": "2^31 on 2027-06-10", "far": "2^31 on 2027-11-23"}[tag.Name]
		if got := tag.Forecast.First(); got != want && (want != "" || got != "-") {
			t.Errorf("%s: %s, want %s", tag.Name, got, want)
		}
	}
	var text bytes.Buffer
	if err := i.View("", ByRate, 10).Print(&text); err != nil || !strings.Contains(text.String(), "snowflake layout 38:1ms/w13/s12@1735689600000, until 2033-09-17") ||
		!strings.Contains(text.String(), "  2^31 on 2027-11-23\n") {
		t.Errorf("%v:\n%s", err, &text)
	}

	i = merged(time.Date(2033, 1, 1, 0, 0, 0, 0, time.UTC), reports, lasts)
	if got := troublesOf(i); !strings.Contains(got, "warning layout 38:1ms/w13/s12@1735689600000: numbers run out: snowflake IDs end on 2033-09-17") {
		t.Errorf("in 2033: %s", got)
	}
}

// TestDecisions: a worker that has missed a raise is shown, and so is a register
// that lacks the raise of which a worker has learned.
func TestDecisions(t *testing.T) {
	t.Parallel()
	l := worker.Report{Instance: "l", Role: worker.RoleLoader, Floor: 500}
	stopped := worker.Report{Instance: "s", Role: worker.RoleLoader, Floor: 900, Stopped: "register regressed"}
	of := func(floor int64) worker.Report {
		return worker.Report{Instance: "w", Role: worker.RoleWorker, BufferFloor: floor}
	}
	for floor, want := range map[int64]string{0: "", 500: "", 1: "warning worker w: may hold", 900: "error worker w: has learned"} {
		got := strings.Join(lines(judgeDecisions([]worker.Report{l, stopped, of(floor)})), "; ")
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("floor %d: %q, want %q", floor, got, want)
		}
	}
	if got := judgeDecisions([]worker.Report{stopped, of(1)}); len(got) > 0 {
		t.Errorf("while no loader grants: %+v", got)
	}
}
