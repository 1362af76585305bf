package health

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker"
)

// holding is the report of a worker that holds worker ID 7. A negative
// unconfirmed is of version 0.2.0, which reports none.
func holding(reserved, unconfirmed time.Duration) worker.Report {
	r := working()
	r.Version, r.Time = "0.3.0", now
	r.Stats.WorkerID, r.Clock = new(int64(7)), &worker.ClockStats{ReservedIn: reserved.Seconds()}
	if unconfirmed >= 0 {
		r.Clock.Unconfirmed = new(unconfirmed.Seconds())
	} else {
		r.Version = "0.2.0"
	}
	return r
}

// TestUnconfirmed: a worker ID without heartbeats is a warning that says until
// when there are IDs, and an error when that is soon.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for _, c := range []struct {
		reserved, unconfirmed time.Duration
		short, want           string
	}{
		{hour, 0, "ready", ""},
		{hour, 40 * time.Second, "unconfirmed", "warning worker ID 7, not confirmed for 40 s, IDs until 13:00 UTC"},
		{48 * time.Minute, 12 * time.Minute, "unconfirmed", "warning worker ID 7, not confirmed for 12 min, IDs until 12:48 UTC"},
		{15*time.Minute - time.Second, 45 * time.Minute, "unconfirmed", "error worker ID 7, not confirmed for 45 min, IDs until 12:14 UTC"},
		{12 * hour, hour, "unconfirmed", "warning worker ID 7, not confirmed for 60 min, IDs until 2026-11-23 00:00 UTC"},
		{-time.Second, hour, "unconfirmed", "error worker ID 7, not confirmed for 60 min, IDs until 12:00 UTC"},
		{3 * time.Second, 0, "heartbeats fail", "warning clock reserved for only 3 s more: heartbeats fail"},
		{3 * time.Second, -1, "heartbeats fail", "warning clock reserved for only 3 s more: heartbeats fail"},
		{20 * time.Second, -1, "ready", ""},
	} {
		r := holding(c.reserved, c.unconfirmed)
		got := strings.Join(lines(Own(now, r, 0)), "; ")
		if short := (&Installation{Taken: now}).State(r).Short; got != c.want || short != c.short {
			t.Errorf("%v reserved, %v unconfirmed: %s, %q; want %s, %q", c.reserved, c.unconfirmed, short, got, c.short, c.want)
		}
		if notReady, _ := Readiness(now, r, 0); notReady != nil {
			t.Errorf("%v reserved, %v unconfirmed: not ready: %v", c.reserved, c.unconfirmed, notReady)
		}
	}
}

// TestOutage: doctor says for how long there are snowflake IDs without JetStream,
// names processes that do not know the time, and warns of worker IDs that nobody
// may claim.
func TestOutage(t *testing.T) {
	t.Parallel()
	layout, err := snowflake.ParseLayout("41:1ms/w10/s12@1735689600000")
	if err != nil {
		t.Fatal(err)
	}
	dead := func(n int, ahead time.Duration) (all []WorkerID) {
		for worker := range n {
			all = append(all, WorkerID{Worker: int64(worker), Reserved: now.Add(ahead)})
		}
		return all
	}
	declared := func(text string, more ...func(*collection)) func(*collection) {
		return func(c *collection) {
			c.readOutage(text)
			for _, add := range more {
				add(c)
			}
		}
	}
	waits := func(lower, upper time.Duration) func(*collection) {
		return func(c *collection) { c.addWaits(lease.Lost{Lower: now.Add(lower), Upper: now.Add(upper)}, now) }
	}
	current, old := holding(time.Hour, 0), holding(20*time.Second, -1)
	loader := reportOf("l", worker.RoleLoader)
	const anHour = "ok outage: snowflake IDs for 1h without JetStream"
	for _, c := range []struct {
		what    string
		with    func(*collection)
		reports []worker.Report
		want    []string
	}{
		{"declared", declared("1h0m0s"), []worker.Report{current, loader}, []string{anHour}},
		{"declared in minutes", declared("1h30m0s"), nil, []string{"ok outage: snowflake IDs for 1h30m without JetStream"}},
		{"a short fence", declared("1h0m0s"), []worker.Report{current, holding(20*time.Second, 0), loader}, []string{anHour + "; for the lease time only on 1 of 2 workers, "}},
		{"another bucket of fences", declared("1h0m0s", func(c *collection) {
			c.lostClock = &lease.ClockLostError{Wait: 41 * time.Second, Bucket: "ids_config", Key: "clock_id"}
		}), nil, []string{anHour, "error worker IDs: lease: clock bucket was replaced or restored: "}},
		{"lowered", declared("10m0s, longest 1h0m0s"), nil, []string{
			"ok outage: snowflake IDs for 10m without JetStream; if ids_clock is lost, the upper half of the worker IDs waits for 1h, the longest that was ever declared",
		}},
		{"off", declared("0s"), []worker.Report{old}, []string{"ok outage: off: without JetStream, snowflake IDs end after the lease time"}},
		{"none", declared(""), []worker.Report{old}, []string{"ok outage: not declared: without JetStream, snowflake IDs end after the lease time, as in version 0.2.0; once all processes are newer, "}},
		{"unreadable", declared("soon"), nil, []string{`error outage: lease: bad outage: key outage is "soon", so snowflake IDs end after the lease time without JetStream; set it with idworker provision --outage 1h`}},
		{"an embedded server", declared("", func(c *collection) { c.embedded = true }), nil, []string{"ok outage: not declared, and not needed: "}},
		{"an embedded server, declared", declared("1h0m0s", func(c *collection) { c.embedded = true }), nil, []string{anHour}},
		{"off, beside an old process", declared("0s, longest 1h0m0s"), []worker.Report{old}, []string{
			"ok outage: off: without JetStream, snowflake IDs end after the lease time; if ids_clock is lost, the upper half of the worker IDs waits for 1h, ", "warning process h (a): version 0.2.0 does not know of declared outages: ",
		}},
		{"unknown", declared("", func(c *collection) { c.miss(configPart, errors.New("no answer")) }), nil, nil},
		{"an old process", declared("1h0m0s"), []worker.Report{current, old}, []string{
			anHour, "warning process h (a): version 0.2.0 does not know of declared outages: after a loss of the fences it may claim a worker ID too early; upgrade it",
		}},
		{"a loss", declared("1h0m0s", waits(-time.Second, time.Hour)), nil, []string{
			anHour, "warning worker IDs: the fences were lost, so worker IDs 512 to 1023 wait until 13:00 UTC; processes that hold a worker ID keep it",
		}},
		{"a loss just now", declared("1h0m0s", waits(time.Minute, 24*time.Hour)), nil, []string{
			anHour, "warning worker IDs: the fences were lost, so worker IDs 0 to 511 wait until 12:01 UTC, and worker IDs 512 to 1023 wait until 2026-11-23 12:00 UTC; ",
		}},
		{"a loss long ago", declared("1h0m0s", waits(-time.Hour, -time.Second)), nil, []string{anHour}},
		{"some dead", declared("1h0m0s", func(c *collection) { c.WorkerIDs = dead(256, time.Hour) }), nil, []string{anHour}},
		{"many dead", declared("1h0m0s", func(c *collection) { c.WorkerIDs = dead(257, time.Hour) }), nil, []string{
			anHour, "warning worker IDs: of 1,024 worker IDs in datacenter 0, 257 are reserved for processes that died or are cut off, the last until 13:00 UTC; ",
		}},
		{"many dead for seconds", declared("1h0m0s", func(c *collection) { c.WorkerIDs = dead(800, time.Minute) }), nil, []string{anHour}},
		{"many held", declared("1h0m0s", func(c *collection) {
			c.WorkerIDs = dead(800, time.Hour)
			for n := range c.WorkerIDs {
				c.WorkerIDs[n].Instance = "a"
			}
		}), []worker.Report{current}, []string{anHour}},
	} {
		i := merged(now, c.reports, func(c *collection) { c.layout, c.agreed.store = layout, "jetstream" }, c.with)
		got := slices.DeleteFunc(lines(i.Diagnoses()), func(line string) bool {
			return !strings.Contains(line, " outage: ") && !strings.Contains(line, "declared outages") && !strings.Contains(line, " worker IDs: ")
		})
		matches := len(got) == len(c.want)
		for n := range min(len(got), len(c.want)) {
			matches = matches && strings.HasPrefix(got[n], c.want[n])
		}
		if !matches {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		var text bytes.Buffer
		if err := i.View("", ByRate, 1).Print(&text); err != nil {
			t.Fatal(err)
		}
		long := i.Outage != nil && i.Outage.For > 0
		if strings.Contains(text.String(), "\nsnowflake IDs for ") != long {
			t.Errorf("%s: want that status shows a long outage, and no other\n%s", c.what, &text)
		}
	}
}
