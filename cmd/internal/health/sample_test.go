package health

import (
	"fmt"
	"time"

	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
)

// hostile is a name that would run unless it is shown as text.
const hostile = `"><script>hacked=1</script><img src=/x onerror=hacked=1><b id=hostile>&amp;`

// sample is an installation on a bad day: three workers of which one is
// overloaded, a fourth that does not report, two loaders of which one has lost
// its store, 10,000 tags, a dead enricher.
func sample(now time.Time) *Installation {
	i := &Installation{
		Taken: now, ID: "Uw2vSx0Rk8ZqPZ1HcWmn4A", Prefix: "ids", Layout: "41:1ms/w10/s12@1735689600000",
		Silent:    []Silent{{Instance: "oJ1h2Vd0q8ZrPZ1HcWmnd4", Host: "ids-w4", Heard: now.Add(-47 * time.Second)}},
		Templates: templates.List{{Pattern: "chat.*", Step: 10, Order: "strict", MaxTags: 1_000_000}},
		Unread:    []Unread{{What: "enrichments of " + hostile, Why: "no answer within 3s"}},
		Totals:    Totals{Workers: 3, WorkersExpected: 4, Loaders: 2, TagsActive: 10_000, Rate: 41_250},
		Checks: []Diagnosis{
			{What: "server", Text: "ids-1 nats://127.0.0.1:4222, version 2.15.2"},
			{What: "sync", Severity: Error, Text: "server ids-2 does not sync every write; set sync_interval: always on every server"},
		},
	}
	for n := range 3 {
		i.Processes = append(i.Processes, aWorker(n, now))
	}
	i.Processes[1].Overloads.Now = true
	i.Processes[2].Host = hostile
	i.Processes = append(i.Processes, aLoader("ids-l1", now), aLoader("ids-l2", now))
	i.Processes[4].Outages = &worker.OutageStats{Now: true, Times: 3, Since: now.Add(-94 * time.Second), Error: "dial tcp 10.0.4.7:3306: connect: connection refused"}
	for n := range 10_000 {
		i.Tags = append(i.Tags, aTag(n))
	}
	for n := range 4 {
		id := WorkerID{Worker: int64(34 + n), AheadMS: int64(n*7 - 9), Reserved: now.Add(21 * time.Second)}
		if n < 3 {
			id.Instance, id.Host, id.Since = i.Processes[n].Instance, i.Processes[n].Host, now.Add(-26*time.Hour)
		}
		i.WorkerIDs = append(i.WorkerIDs, id)
	}
	waits, none := uint64(18_204), uint64(0)
	i.Enrichments = []EnrichmentState{
		{Source: "ORDERS", Target: "ORDERS_READY", IDs: "segment:order", Enricher: "z01pOO956o7y7y3XnV1soR", Done: 812_377, Written: now.Add(-3 * time.Minute), Stalled: true, Lag: &waits, Oldest: now.Add(-3 * time.Minute)},
		{Source: hostile, Target: "CLICKS_READY", IDs: "snowflake", Enricher: "z01pOO956o7y7y3XnV1soS", Done: 91_004_812, Written: now, Lag: &none},
	}
	i.judge(i.Processes, true)
	return i
}

func aWorker(n int, now time.Time) worker.Report {
	id := int64(34 + n)
	return worker.Report{
		Instance: fmt.Sprintf("zyYyTe7mo6PwIYwNCfLA%02d", n), Host: fmt.Sprintf("ids-w%d", n+1), Role: worker.RoleWorker, Version: "0.2.0", Started: now.Add(-26 * time.Hour),
		Overloads: &worker.OverloadStats{Times: int64(n)}, Clock: &worker.ClockStats{AheadMS: int64(n*7 - 9), ReservedIn: 21},
		Stats: worker.Stats{
			Installation: "Uw2vSx0Rk8ZqPZ1HcWmn4A", WorkerID: &id,
			SupplyFigures: worker.SupplyFigures{Active: 10_000, Tags: []worker.TagStats{{Tag: "checkout.order", Rate: 4_000, Runway: 120}}, Grants: worker.GrantStats{Installed: 48_211, Burnt: 12}},
		},
	}
}

func aLoader(host string, now time.Time) worker.Report {
	return worker.Report{
		Instance: "M3bQe7mo6PwIYwNCfLA" + host[4:], Host: host, Role: worker.RoleLoader, Version: "0.2.0", Started: now.Add(-26 * time.Hour), Outages: &worker.OutageStats{},
		Stats: worker.Stats{Installation: "Uw2vSx0Rk8ZqPZ1HcWmn4A", Store: "mysql:10.0.4.7:3306/leaf.leaf_alloc", Loads: &worker.LoadStats{Writes: 71_002, Failures: 41}},
	}
}

// aTag is the nth tag: the first are busy, and three quarters are idle.
func aTag(n int) TagState {
	t := TagState{Name: fmt.Sprintf("shop-%04d.order", n), Order: "trend", Workers: 3, Step: 1000, Room: 6000, Left: 6000, Runway: 365 * 24 * 3600}
	switch {
	case n == 0:
		t.Name, t.Short = "checkout.order", true
	case n == 1:
		return TagState{Name: "invoice", Order: "strict", Workers: 3, Rate: 6_000, Parked: 2, Runway: 365 * 24 * 3600}
	case n == 3:
		t.Name = hostile
	case n >= 2_500:
		return t
	}
	t.Rate = 12_000 / float64(n+1)
	t.Step = max(1000, int64(t.Rate*400))
	t.Room = 6 * t.Step
	t.Left = t.Room * int64(n%61+30) / 100
	if n == 0 {
		t.Left, t.Parked = t.Room/20, 14
	}
	t.Runway = min(float64(t.Left)/t.Rate, 365*24*3600)
	return t
}
