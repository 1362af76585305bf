package recovery

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/backup"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// evidenceAt is the evidence of an installation without history.
func evidenceAt(t *testing.T, at time.Time) *Evidence {
	t.Helper()
	return &Evidence{
		at: at, prefix: prefix, store: jetStream(t), found: true, state: register.Summary{Floor: 1},
		held: make(map[string]told[int64]), clocks: []clock{{of: "this machine"}},
	}
}

// TestTarget: the target lies above the time, and 10^10 above any earlier raise
// that something knows of.
func TestTarget(t *testing.T) {
	t.Parallel()
	now := noon.UnixMicro()
	for name, c := range map[string]struct {
		know func(e *Evidence)
		want int64
	}{
		"nothing":                {func(*Evidence) {}, now},
		"a raise of long ago":    {func(e *Evidence) { e.addFloor("x", now-1e12) }, now},
		"a raise a minute ago":   {func(e *Evidence) { e.addFloor("x", now-60e6) }, now - 60e6 + register.Slack},
		"a number of long ago":   {func(e *Evidence) { e.addFloor("x", 1_000_001) }, now},
		"a process's floor":      {func(e *Evidence) { e.addReport(worker.Report{Time: noon, Floor: now - 1}, noon, noon) }, now - 1 + register.Slack},
		"a worker's buffers":     {func(e *Evidence) { e.addReport(reportOf(now+5e6), noon, noon) }, now + 5e6 + register.Slack},
		"a tag begun far above":  {func(e *Evidence) { e.addReport(reportOf(now+20*register.Slack), noon, noon) }, now},
		"the server's clock":     {func(e *Evidence) { e.clocks = append(e.clocks, clock{"server", 9 * time.Second}) }, now + 9e6},
		"a slow server's clock":  {func(e *Evidence) { e.clocks = append(e.clocks, clock{"server", -9 * time.Second}) }, now},
		"an entry from just now": {func(e *Evidence) { e.addTime("x", noon) }, now},
		"a decision of tomorrow": {func(e *Evidence) { e.addTime("x", noon.Add(24*time.Hour)) }, now + 24*3600e6},
		"a backup of next year":  {func(e *Evidence) { e.addTime("x", noon.AddDate(1, 0, 0)) }, noon.AddDate(1, 0, 0).UnixMicro()},
		"and a raise above it": {func(e *Evidence) {
			e.addTime("x", noon.Add(24*time.Hour))
			e.addFloor("x", now+24*3600e6)
		}, now + 24*3600e6 + register.Slack},
	} {
		e := evidenceAt(t, noon)
		c.know(e)
		p, err := Make(e, Wish{})
		if err != nil || p.Target != c.want {
			t.Errorf("%s: %+v, %v; want the target %d", name, p, err, c.want)
		}
	}
	if p, err := Make(evidenceAt(t, noon), Wish{Built: noon.Add(time.Hour)}); err != nil || p.Target != now+3600e6 || p.Future != time.Hour {
		t.Errorf("a program that was built in an hour: %+v, %v", p, err)
	}
}

func reportOf(highest int64) worker.Report {
	r := worker.Report{Time: noon}
	r.Stats.Highest = highest
	return r
}

// TestClaims: numbers that only processes report, far above the time and all that
// is stored, are shown, and are refused without a prompt. Reports of a process that
// is to be ignored count for nothing.
func TestClaims(t *testing.T) {
	t.Parallel()
	const far = 1 << 62
	now := noon.UnixMicro()
	report := func(change func(r *worker.Report)) func(e *Evidence) {
		return func(e *Evidence) {
			r := worker.Report{Instance: "w", Host: "h", Time: noon}
			change(&r)
			e.addReport(r, noon, noon)
		}
	}
	held := func(next int64) func(e *Evidence) {
		return report(func(r *worker.Report) {
			stats := worker.TagStats{Tag: "a", Order: "trend"}
			stats.Use.High = next
			r.Stats.Tags = append(r.Stats.Tags, stats)
		})
	}
	floor := func(f int64) func(e *Evidence) { return report(func(r *worker.Report) { r.BufferFloor = f }) }
	both := func(all ...func(e *Evidence)) func(e *Evidence) {
		return func(e *Evidence) {
			for _, know := range all {
				know(e)
			}
		}
	}
	for name, c := range map[string]struct {
		know  func(e *Evidence)
		entry int64  // next ID of tag a
		want  string // of the error; empty: none
	}{
		"nothing":                        {func(*Evidence) {}, 5, ""},
		"a floor of today":               {floor(now + register.Slack), 5, ""},
		"a floor far above":              {floor(far), 5, "process w on h reports 4611686018427387904 as the lowest first ID"},
		"a loader's floor":               {report(func(r *worker.Report) { r.Floor = far }), 5, "process w on h reports 4611686018427387904 as the lowest"},
		"a floor just too high":          {floor(now + register.Slack + 1), 5, "process w on h reports"},
		"a floor that a bucket has":      {both(floor(far), func(e *Evidence) { e.addFloor("x", far) }), 5, ""},
		"a floor a little above that":    {both(floor(far+register.Slack), func(e *Evidence) { e.addFloor("x", far) }), 5, ""},
		"a floor from a time to come":    {both(floor(now+3600e6), func(e *Evidence) { e.addTime("x", noon.Add(time.Hour)) }), 5, ""},
		"a floor in a claim":             {report(func(r *worker.Report) { r.Claims = []store.Claim{{By: "w", Floor: far}} }), 5, "process w on h reports 4611686018427387904"},
		"a floor in another one's claim": {report(func(r *worker.Report) { r.Claims = []store.Claim{{By: "v", Floor: far, Heard: true}} }), 5, "process v reports 4611686018427387904"},
		"grants of today":                {report(func(r *worker.Report) { r.Stats.Highest = now + register.Slack }), 5, ""},
		"grants above":                   {report(func(r *worker.Report) { r.Stats.Highest = now + 2*register.Slack }), 5, "was granted IDs up to"},
		"a tag":                          {held(now), 5, ""},
		"a tag far above":                {held(far), 5, "processes report grants of a up to 4611686018427387904 by process w on h"},
		"a tag far above in a claim":     {report(func(r *worker.Report) { r.Claims = []store.Claim{{By: "v", Floor: 1, Tag: "a", Next: far}} }), 5, "grants of a up to 4611686018427387904 by process v"},
		"a tag that was begun there":     {held(far + 1000), far, ""},
		"a tag far above its entry":      {held(far + register.Slack + 1), far, "grants of a up to"},
		"a tag below a bucket's floor":   {both(held(far), func(e *Evidence) { e.addFloor("x", far) }), 5, ""},
	} {
		for _, w := range []Wish{{}, {Ignore: []string{"v"}}, {Ignore: []string{"v", "w"}}} {
			e := evidenceAt(t, noon)
			e.ignored = w.Ignore
			c.know(e)
			p, err := Make(e, w)
			must(t, err)
			p.count(register.Effect{Tag: store.Tag{Name: "a", Next: math.MaxInt64, Step: 10}, Before: c.entry}, 0)
			err, want := p.CheckClaims(), c.want
			if len(w.Ignore) > 1 || len(w.Ignore) == 1 && strings.Contains(want, "process v") { // which w repeats
				want = ""
			}
			if (err != nil) != (want != "") || err != nil && (!errors.Is(err, ErrClaimed) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, ignoring %q: %v, want %q", name, w.Ignore, err, want)
			}
			if want == "" && c.want != "" && (p.Target != now || p.raise.Held["a"] != 0) {
				t.Errorf("%s, ignored: the target is %d, and the tag was granted up to %d", name, p.Target, p.raise.Held["a"])
			}
		}
	}
}

// TestFuture: a time from the future raises the target, and is shown. Of tags
// above the target nobody knows then how long ago they were last written.
func TestFuture(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, backup.MaxClockDiff: 0, backup.MaxClockDiff + 1: backup.MaxClockDiff + 1, 48 * time.Hour: 48 * time.Hour,
	} {
		e := evidenceAt(t, noon)
		e.addTime("an entry", noon.Add(ahead))
		p, err := Make(e, Wish{})
		if err != nil || p.Future != want || p.NewestOf != "an entry" || !p.Clock.Equal(noon) || p.Time.Before(noon.Add(ahead)) {
			t.Fatalf("%v ahead: %+v, %v; want %v", ahead, p, err, want)
		}
		raise, _ := p.rule(p.Target).(register.Raise)
		above := raise.NextAfter(store.Tag{Name: "above", Next: 1e18}, noon.Add(-time.Minute))
		if certain := above < 1e18+2*register.Slack; certain != (want == 0) {
			t.Errorf("%v ahead: a tag above the target is raised to %d", ahead, above)
		}
	}
}

// TestClocks: the time is refused if clocks differ, because one of them can be
// set right.
func TestClocks(t *testing.T) {
	t.Parallel()
	for name, know := range map[string]func(e *Evidence){
		"the server is an hour behind": func(e *Evidence) { e.clocks = append(e.clocks, clock{"server", -time.Hour}) },
		"the server is ahead":          func(e *Evidence) { e.clocks = append(e.clocks, clock{"server", 11 * time.Second}) },
		"a worker is ahead":            func(e *Evidence) { e.addReport(worker.Report{Time: noon.Add(time.Minute)}, noon, noon) },
		"a worker is behind":           func(e *Evidence) { e.addReport(worker.Report{Time: noon.Add(-time.Minute)}, noon, noon) },
	} {
		e := evidenceAt(t, noon)
		know(e)
		if p, err := Make(e, Wish{}); !errors.Is(err, ErrClock) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	e := evidenceAt(t, noon)
	e.clocks = append(e.clocks, clock{"server", -time.Hour})
	e.addTime("bucket", noon.Add(time.Hour))
	p, err := Make(e, Wish{By: 1000})
	if err != nil || p.Target != 1001 || !p.evidence.time(noon).Equal(noon.Add(time.Hour)) {
		t.Errorf("by a number, which needs no time: %+v, %v", p, err)
	}
}

// TestNumberAfterUndoneRaise: a number is refused once anything knows a floor
// above the register's and above that of an unfinished raise.
func TestNumberAfterUndoneRaise(t *testing.T) {
	t.Parallel()
	for _, w := range []Wish{{By: 1e9}, {Lifts: []register.Lift{{Pattern: "invoice.*", By: 20000}}}} {
		e := evidenceAt(t, noon)
		e.state.Floor = 1001
		e.addFloor("the register", 1001)
		if _, err := Make(e, w); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
		e.addFloor("the witness", 5000)
		if _, err := Make(e, w); !errors.Is(err, ErrUndone) {
			t.Errorf("%+v after a raise that was undone: %v", w, err)
		}
		e.state.Marked = 5000 // by a raise that was interrupted
		if _, err := Make(e, w); !errors.Is(err, ErrUndone) {
			t.Errorf("%+v, after an interrupted raise: %v", w, err)
		}
	}
}

// The time at which a backup was taken, and what it has besides.
var (
	takenAt = noon.Add(-time.Hour)
	daily   = templates.Template{Pattern: "day.*", Step: 10, Order: store.Trend}
)

// backedUp is an installation that has not changed since its backup.
func backedUp(t *testing.T) (*Evidence, *backup.Backup) {
	t.Helper()
	e, b := evidenceAt(t, noon), new(backup.Backup)
	b.Prefix, b.Taken, b.Floor, b.Replicas, b.Installation, b.Decisions = prefix, takenAt, 1, 3, "ours", []string{"d1"}
	b.Config = map[string]string{
		agreement.InstallationKey: "ours 2026-11-20T00:00:00Z", agreement.StoreKey: "jetstream", register.ConfigKey: "r1",
		lease.LayoutKey: "standard", lease.ClockIDKey: "c1", agreement.FloorKey: "1", templates.Key: "…", "colour": "red",
	}
	b.List = tags.Listing{Tags: []store.Tag{{Name: "a", Step: 10, Next: 5}, {Name: "b", Next: 7}}, Templates: templates.List{daily}}
	b.Enrichments = map[string]string{"orders": "first", "bills": "second"}
	e.settings, e.records, e.templates = maps.Clone(b.Config), map[string]bool{"orders": true, "bills": true}, templates.List{daily}
	e.state.Entries, e.state.Decisions = 2, []string{"d1", "d2"}
	return e, b
}

// TestRefused: what is undone by that, or cannot be right, is refused, in words
// that name it.
func TestRefused(t *testing.T) {
	t.Parallel()
	behind := func(e *Evidence) { e.clocks = append(e.clocks, clock{"the NATS server", -time.Hour}) }
	for name, c := range map[string]struct {
		change func(e *Evidence, w *Wish) // of a restore
		is     error
		says   string
	}{
		"another prefix": {func(_ *Evidence, w *Wish) { w.Backup.Prefix = "prod" }, ErrPrefix, "prod, and this is ids; give --prefix prod"},
		"another installation": {func(e *Evidence, _ *Wish) {
			e.settings[agreement.InstallationKey] = "theirs 2026-11-25T00:00:00Z"
		}, ErrOther, "theirs, since 2026-11-25T00:00:00Z, with 2 tags; the backup is of ours; if processes made that one after the data was lost, take its place: --replace-installation theirs"},
		"in the place of a third one": {func(e *Evidence, w *Wish) {
			e.settings[agreement.InstallationKey], w.InPlaceOf = "theirs 2026-11-25T00:00:00Z", "third"
		}, ErrOther, "--replace-installation theirs"},
		"in the place of none": {func(e *Evidence, w *Wish) {
			clear(e.settings)
			w.InPlaceOf = "theirs"
		}, ErrOther, "there is none to replace"},
		"another layout": {func(e *Evidence, _ *Wish) { e.settings[lease.LayoutKey] = "twitter" }, ErrOther, "the layout twitter, and those of the backup standard"},
		"into another store": {func(e *Evidence, w *Wish) {
			delete(e.settings, agreement.StoreKey)
			w.Backup.Config[agreement.StoreKey] = "mysql a.b"
		}, agreement.ErrForeignStore, "mysql a.b"},
		"templates that promise more": {func(e *Evidence, _ *Wish) {
			e.templates[0].Dates = templates.Dates{Dated: "yyyyMMdd", Ahead: 3600}
		}, templates.ErrTemplate, "day.* is dated otherwise"},
		"no IDs left": {func(_ *Evidence, w *Wish) { w.Backup.Floor = math.MaxInt64 - register.Slack }, ErrNoneLeft, "the backup has seen 92233720"},
		"clocks":      {func(e *Evidence, _ *Wish) { behind(e) }, ErrClock, "the NATS server"},
		"a raise of nothing": {func(e *Evidence, w *Wish) {
			e.found, w.Backup = false, nil
		}, ErrEmpty, ""},
		"a raise without IDs left": {func(e *Evidence, w *Wish) {
			w.Backup = nil
			e.addFloor("the witness", math.MaxInt64)
		}, ErrNoneLeft, "the witness has seen 9223372036854775807"},
		"a number after a raise that was undone": {func(e *Evidence, w *Wish) {
			w.Backup, w.By = nil, 1000
			e.addFloor("the witness", 5000)
		}, ErrUndone, "the witness has seen 5000 as the lowest first ID of new tags, and the register has 1"},
		"a list with a floor after a raise that was interrupted": {func(e *Evidence, w *Wish) {
			*w = Wish{List: &tags.Listing{Floor: 500, Decided: takenAt}}
			e.state.Marked = 7
		}, ErrRaiseFirst, "a raise was interrupted"},
		"a list with a floor after a raise that was undone": {func(e *Evidence, w *Wish) {
			*w = Wish{List: &tags.Listing{Floor: 500, Decided: takenAt}}
			e.addFloor("process w", 2)
		}, ErrRaiseFirst, "process w has seen 2"},
		"a list with a floor beside a process that found a fault": {func(e *Evidence, w *Wish) {
			*w = Wish{List: &tags.Listing{Floor: 500, Decided: takenAt}}
			e.addReport(worker.Report{Time: noon, Host: "h", Stopped: "the register has regressed"}, noon, noon)
		}, ErrRaiseFirst, "on h grants nothing: the register has regressed"},
		"a list with a floor by clocks that differ": {func(e *Evidence, w *Wish) {
			*w = Wish{List: &tags.Listing{Floor: 500, Decided: takenAt}}
			behind(e)
		}, ErrClock, "the NATS server"},
	} {
		e, b := backedUp(t)
		w := Wish{Backup: b}
		c.change(e, &w)
		if _, err := Make(e, w); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.is, c.says)
		}
	}
}

// TestPlanned: what is missing of a backup is put back, what differs stays and is
// shown, and what is there is nothing to do.
func TestPlanned(t *testing.T) {
	t.Parallel()
	lost := func(e *Evidence) {
		e.settings, e.records, e.templates, e.state = nil, nil, nil, register.Summary{Missing: true, Floor: 1}
	}
	for name, c := range map[string]struct {
		change func(e *Evidence, w *Wish)
		want   string
	}{
		"nothing": {func(*Evidence, *Wish) {}, "nothing; 3 replicas"},
		"all": {func(e *Evidence, _ *Wish) { lost(e) },
			"missing; it lacks a raise that the backup has; settings clock_id colour installation layout register store; templates day.*; records bills orders; unconfirmed; 3 replicas"},
		"all, beside a clock": {func(e *Evidence, _ *Wish) {
			lost(e)
			e.addServer(noon, noon, noon)
		}, "missing; it lacks a raise that the backup has; settings clock_id colour installation layout register store; templates day.*; records bills orders; 3 replicas"},
		"the register": {func(e *Evidence, _ *Wish) {
			e.state = register.Summary{Missing: true, Floor: 1}
			e.addServer(noon, noon, noon)
		}, "missing; it lacks a raise that the backup has; 3 replicas"},
		"a setting":      {func(e *Evidence, _ *Wish) { delete(e.settings, "colour") }, "settings colour; 3 replicas"},
		"other settings": {func(e *Evidence, _ *Wish) { e.settings["colour"] = "blue" }, "kept colour blue red; nothing; 3 replicas"},
		"the buckets of another time": {func(e *Evidence, _ *Wish) {
			e.settings[register.ConfigKey], e.settings[lease.ClockIDKey] = "r2", "c2"
		}, "nothing; 3 replicas"},
		"settings that rise": {func(e *Evidence, _ *Wish) {
			delete(e.settings, agreement.FloorKey)
			delete(e.settings, templates.Key)
		}, "nothing; 3 replicas"},
		"a record":   {func(e *Evidence, _ *Wish) { e.records["bills"] = false }, "records bills; 3 replicas"},
		"a template": {func(e *Evidence, _ *Wish) { e.templates = nil }, "templates day.*; 3 replicas"},
		"another template": {func(e *Evidence, _ *Wish) {
			e.templates = append(e.templates, templates.Template{Pattern: "week.*", Step: 10, Order: store.Trend})
		}, "nothing; 3 replicas"},
		"the clock bucket":   {func(e *Evidence, _ *Wish) { e.clockLost = true }, "nothing; 3 replicas"},
		"its identity, too":  {func(e *Evidence, _ *Wish) { e.clockLost = true; delete(e.settings, lease.ClockIDKey) }, "settings clock_id; 3 replicas"},
		"alone with a clock": {func(e *Evidence, _ *Wish) { e.alone = true; delete(e.settings, lease.ClockIDKey) }, "nothing; 1 replicas"},
		"alone without one":  {func(e *Evidence, _ *Wish) { e.alone, e.clockLost = true, true; delete(e.settings, lease.ClockIDKey) }, "nothing; 1 replicas"},
		"a backup without a clock, of an installation that is gone": {func(e *Evidence, w *Wish) {
			delete(w.Backup.Config, lease.ClockIDKey)
			delete(e.settings, agreement.InstallationKey)
			e.clockLost = true
		}, "settings installation clock_id; 3 replicas"},
		"replicas":         {func(_ *Evidence, w *Wish) { w.Replicas = 5 }, "nothing; 5 replicas"},
		"replicas for one": {func(e *Evidence, w *Wish) { e.alone, w.Replicas = true, 5 }, "nothing; 1 replicas"},
		"another installation": {func(e *Evidence, w *Wish) {
			e.settings[agreement.InstallationKey], w.InPlaceOf = "theirs 2026-11-25T00:00:00Z", "theirs"
		}, "replaced theirs; 3 replicas"},
		"another one that was made with the ID": {func(e *Evidence, w *Wish) {
			e.settings[agreement.InstallationKey], w.InPlaceOf = "ours 2026-11-25T00:00:00Z", "ours"
		}, "replaced ours; 3 replicas"},
		"another one that was replaced before": {func(_ *Evidence, w *Wish) { w.InPlaceOf = "theirs" }, "nothing; 3 replicas"},
		"a raise":                              {func(e *Evidence, _ *Wish) { e.state.Decisions = []string{"d2"} }, "it lacks a raise that the backup has; 3 replicas"},
		"a raise that ended":                   {func(e *Evidence, _ *Wish) { e.state.Marked = 7 }, "a raise was interrupted; 3 replicas"},
		"a floor":                              {func(_ *Evidence, w *Wish) { w.Backup.Floor = 77 }, "the backup has seen 77 as the lowest first ID of new tags, and the register has 1; 3 replicas"},
		"grants, says one":                     {func(e *Evidence, _ *Wish) { e.wrong = "process w grants nothing" }, "process w grants nothing; 3 replicas"},
		"a raise, no restore":                  {func(e *Evidence, w *Wish) { e.state.Missing, w.Backup = true, nil }, "missing; 1 replicas"},
	} {
		e, b := backedUp(t)
		w := Wish{Backup: b}
		c.change(e, &w)
		p, err := Make(e, w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := describe(p); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// describe describes a plan, but for its numbers.
func describe(p *Plan) string {
	var parts []string
	add := func(is bool, format string, values ...any) {
		if is {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf(format, values...)))
		}
	}
	add(p.Missing, "missing")
	add(p.Regressed != "", "%s", p.Regressed)
	add(p.Replaced != "", "replaced %s", p.Replaced)
	for _, k := range p.Kept {
		add(true, "kept %s %s %s", k.Key, k.Here, k.Backup)
	}
	add(p.Settings != nil, "settings %s", strings.Join(p.Settings, " "))
	add(p.Templates != nil, "templates %s", strings.Join(p.Templates, " "))
	add(p.Records != nil, "records %s", strings.Join(p.Records, " "))
	add(p.Unconfirmed, "unconfirmed")
	add(p.Nothing(), "nothing")
	add(true, "%d replicas", p.Replicas)
	return strings.Join(parts, "; ")
}

// TestRestoredNumbers: the floor, the time and the tags of a backup, and what
// workers hold of others, are those of the raise that ends the restore.
func TestRestoredNumbers(t *testing.T) {
	t.Parallel()
	e, b := backedUp(t)
	b.Floor, b.List.Decided = noon.UnixMicro(), noon.Add(time.Minute)
	held := worker.Report{Time: noon}
	for _, tag := range []string{"c", "a"} {
		stats := worker.TagStats{Tag: tag, Order: "strict"}
		stats.Use.High = 90
		held.Stats.Tags = append(held.Stats.Tags, stats)
	}
	e.addReport(held, noon, noon)
	p, err := Make(e, Wish{Backup: b})
	must(t, err)
	raise, _ := p.rule(p.Target).(register.Raise)
	workers := []store.Tag{{Name: "c", Next: 90, Step: heldStep, Order: store.Strict}}
	if p.Target != noon.UnixMicro()+register.Slack || p.NewestOf != "the latest decision in the backup" || !slices.Equal(raise.List, b.List.Tags) || !slices.Equal(raise.Workers, workers) || raise.Held["a"] != 90 {
		t.Errorf("%+v", p)
	}
	if !raise.Since.Equal(time.UnixMicro(1)) { // a minute ahead
		t.Errorf("since %v", raise.Since)
	}
	b.List.Decided = time.Time{}
	if p, err = Make(e, Wish{Backup: b}); err != nil || !p.raise.Since.Equal(takenAt) {
		t.Errorf("since %v, %v", p.raise.Since, err)
	}
}

// TestBackupOfNoTags: the backup of an installation without tags is a list, too:
// what it lacks and has no row is removed.
func TestBackupOfNoTags(t *testing.T) {
	t.Parallel()
	e, b := backedUp(t)
	b.List.Tags = nil // as the folder of such a backup is read
	p, err := Make(e, Wish{Backup: b})
	must(t, err)
	if raise, _ := p.rule(p.Target).(register.Raise); raise.List == nil {
		t.Error("no list, as for a raise without a backup")
	}
}

// TestAboveByTheBackup: a tag that the backup has at or above the target counts as
// above it, however low its entry is here.
func TestAboveByTheBackup(t *testing.T) {
	t.Parallel()
	p := &Plan{Target: 1000}
	for name, next := range map[string]int64{"high": 1000, "low": 999} {
		p.count(register.Effect{Tag: store.Tag{Name: name, Next: 5000, Step: 10}, Before: 5, Listed: &store.Tag{Name: name, Next: next}}, 0)
	}
	if above := p.Survey.Above; above.Count != 1 || above.String() != "high" {
		t.Errorf("above the target: %d, %s", above.Count, above)
	}
}

// TestImportDecides: an import is a raise only if its list has a higher floor, or
// one that was decided later than the last here.
func TestImportDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		floor, here     int64
		decided, hereAt time.Time
		want            int64
	}{
		"no floor":            {0, 1, time.Time{}, time.Time{}, 0},
		"a floor":             {500, 1, takenAt, time.Time{}, 500},
		"the same":            {500, 500, takenAt, takenAt, 0},
		"a lower one":         {500, 700, takenAt, takenAt, 0},
		"a lower, later one":  {500, 700, noon, takenAt, 701},
		"a time without one":  {1, 700, noon, takenAt, 0},
		"a later one than no": {500, 700, noon, time.Time{}, 0},
	} {
		e := evidenceAt(t, noon)
		e.state = register.Summary{Floor: c.here, Decided: c.hereAt}
		p, err := Make(e, Wish{List: &tags.Listing{Floor: c.floor, Decided: c.decided}})
		if err != nil || p.Target != c.want {
			t.Errorf("%s: %+v, %v; want the target %d", name, p, err, c.want)
		}
	}
}

// TestDatabaseWithoutBuckets: a table may have tags, so it is raised although NATS
// has nothing.
func TestDatabaseWithoutBuckets(t *testing.T) {
	t.Parallel()
	e := evidenceAt(t, noon)
	var err error
	e.found = false
	e.store, err = backend.Parse("postgres://u:p@localhost/db", "leaf_alloc")
	must(t, err)
	if p, err := Make(e, Wish{}); err != nil || p.Target != noon.UnixMicro() {
		t.Errorf("%+v, %v", p, err)
	}
}
