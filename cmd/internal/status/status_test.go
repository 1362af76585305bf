package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func reportOf(instance string, role worker.Role, tags ...worker.TagStats) worker.Report {
	return worker.Report{Instance: instance, Role: role, Stats: worker.Stats{Supply: worker.Supply{Active: len(tags), Tags: tags}, Installation: "I"}}
}

func (c *collection) at(when time.Time) *Installation { return c.installation(when) }

// TestTagsOfAllWorkers: what workers tell of a tag is added up, but for how long memory lasts: that is where it ends
// first.
func TestTagsOfAllWorkers(t *testing.T) {
	t.Parallel()
	c := &collection{
		Collector: NewCollector(Config{Prefix: "ids"}),
		reports: []worker.Report{
			reportOf("a", worker.RoleAll, worker.TagStats{Tag: "order", Order: "trend", Step: 200, Left: 150, Rate: 2, Runway: 75}, worker.TagStats{Tag: "new.1", Order: "strict", Rate: 1, Runway: 9}),
			reportOf("b", worker.RoleWorker, worker.TagStats{Tag: "order", Order: "trend", Step: 100, Left: 60, Rate: 1, Runway: 60, Parked: 2}),
		},
	}
	i := c.at(now)
	want := []Tag{
		{Name: "order", Order: "trend", Workers: 2, Step: 200, Left: 210, Room: 600, Rate: 3, Runway: 60, Parked: 2, Short: true},
		{Name: "new.1", Order: "strict", Workers: 1, Rate: 1, Runway: 9},
	}
	if len(i.Tags) != len(want) {
		t.Fatalf("%+v", i.Tags)
	}
	for n := range want {
		if i.Tags[n] != want[n] {
			t.Errorf("%+v, want %+v", i.Tags[n], want[n])
		}
	}
	if n := i.Totals; n.Workers != 2 || n.Loaders != 1 || n.TagsActive != 2 || n.Rate != 4 || i.ID != "I" {
		t.Errorf("%+v", n)
	}
	if first := i.EndFirst(5); len(first) != 1 || first[0].Name != "order" {
		t.Errorf("ends first: %+v, want the one that is used, and has IDs in memory", first)
	}
}

// TestLeftIsSpokenOf: a process without a worker ID that reported before is listed for a while
// as gone, and one with a worker ID that was released is not.
func TestLeftIsSpokenOf(t *testing.T) {
	t.Parallel()
	col := NewCollector(Config{Prefix: "ids"})
	id := int64(7)
	stopped := reportOf("stopped", worker.RoleWorker)
	stopped.Stats.WorkerID = &id
	(&collection{Collector: col, reports: []worker.Report{stopped, reportOf("loader", worker.RoleLoader)}}).at(now)
	i := (&collection{Collector: col}).at(now.Add(time.Minute))
	if len(i.Silent) != 1 || i.Silent[0].Instance != "loader" || !i.Silent[0].Left {
		t.Errorf("after a minute: %+v", i.Silent)
	}
	if i := (&collection{Collector: col}).at(now.Add(2 * remembersFor)); len(i.Silent) > 0 {
		t.Errorf("later: %+v", i.Silent)
	}
}

// TestShortMemoryIsJudgedOverTime: a tag that has just begun to be asked for has small segments, and no warning.
func TestShortMemoryIsJudgedOverTime(t *testing.T) {
	t.Parallel()
	col := NewCollector(Config{Prefix: "ids"})
	look := func(after time.Duration, parked int) string {
		c := &collection{Collector: col, reports: []worker.Report{reportOf("a", worker.RoleAll, worker.TagStats{Tag: "order", Left: 100, Rate: 10, Runway: 10, Step: 10, Parked: parked})}}
		return troublesOf(c.at(now.Add(after)))
	}
	if got := look(0, 0); strings.Contains(got, "order") {
		t.Errorf("at once: %s", got)
	}
	if got := look(0, 3); !strings.Contains(got, "error tag order: memory lasts for 10 s at 10 IDs a second, and 3 requests wait") {
		t.Errorf("with requests that wait: %s", got)
	}
	if got := look(shortFor, 0); !strings.Contains(got, "error tag order: memory lasts for 10 s") {
		t.Errorf("after a minute: %s", got)
	}
}

func troublesOf(i *Installation) string {
	var all []string
	for _, t := range i.Troubles {
		all = append(all, fmt.Sprintf("%s %s: %s", t.Severity, t.What, t.Text))
	}
	return strings.Join(all, "\n")
}

// TestTroubles: each kind of trouble is told once, errors first. That nobody is there is said only if everybody could
// be asked.
func TestTroubles(t *testing.T) {
	t.Parallel()
	overloaded := reportOf("w1", worker.RoleWorker)
	overloaded.Overloads = &worker.OverloadStats{Now: true, Times: 3}
	overloaded.NotReady = "not in the queue group of segment requests: overloaded"
	off := reportOf("w2", worker.RoleWorker)
	id := int64(7)
	off.Stats.WorkerID, off.Clock, off.Stats.NoLoader, off.Degraded = &id, &worker.ClockStats{AheadMS: -1700, ReservedIn: 3}, "no loader answers", "no loader answers"
	none := reportOf("w3", worker.RoleWorker)
	none.Stats.NoWorker, none.Stats.Grants.Below = "all are taken", 2
	failing := reportOf("l1", worker.RoleLoader)
	failing.Outages = &worker.OutageStats{Now: true, Times: 1, Since: now.Add(-time.Minute), Error: "refused"}
	lag := uint64(5)
	c := &collection{
		Collector: NewCollector(Config{Prefix: "ids"}), reports: []worker.Report{overloaded, off, none, failing},
		workerIDs: workerIDs{
			all:   []WorkerID{{Instance: "w1"}, {Worker: 1, Instance: "w4", Host: "h4"}, {Worker: 2, Host: "old"}},
			heard: map[string]time.Time{"w4": now.Add(-8 * time.Second)},
		},
		enrichments: []Enrichment{{Source: "A", Target: "B", Stalled: true, Written: now.Add(-time.Minute), Lag: &lag}, {Source: "C", Target: "D", Oldest: now.Add(-2 * time.Minute)}},
		checks:      []Check{{What: "sync", Severity: Error, Text: "not"}, {What: "server", Text: "fine"}},
		unread:      []Unread{{"worker IDs", "denied"}},
	}
	i := c.at(now)
	want := `error worker w1: is overloaded, and out of the queue groups until the waiting requests are handled; start more workers
error worker w2: no loader answers
error loader l1: its store  has failed for 60 s (refused); no tag is in use
error enrichment A to B: no enricher has been at work for 60 s: none runs, or it stands still and its log says why; 5 events wait
error doctor: sync: not
warning worker h4 (w4): does not report, though it holds a worker ID: it died (last heard of 8.0 s ago), or is paused or cut off
warning worker w2: its clock is -1.7s ahead of the NATS server's
warning worker w2: its worker ID's time is reserved for 3 s only: heartbeats fail
warning worker w3: has no worker ID, and answers no snowflake requests: all are taken
warning worker w3: was granted 2 ranges that had been granted before, and burnt them: the store went back
warning enrichment C to D: the oldest event that waits is 2 min old
warning not known: worker IDs: denied`
	if got := troublesOf(i); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if i.Totals.Workers != 3 || i.Totals.WorkersExpected != 4 || i.Worst() != Error {
		t.Errorf("%+v", i.Totals)
	}
	i.Tags = append(i.Tags, Tag{Name: "order", Order: "strict", Rate: 1})
	i.Judge()
	if got := troublesOf(i); !strings.Contains(got, "(refused); 1 strict tags in use have no IDs, no other is in use") {
		t.Errorf("a strict tag is in use: %s", got)
	}
	nobody := &collection{Collector: NewCollector(Config{Prefix: "ids"})}
	if got := troublesOf(nobody.at(now)); !strings.Contains(got, "nobody answers requests") || !strings.Contains(got, "nobody reserves segments") {
		t.Errorf("nobody is there: %s", got)
	}
	nobody.unread = []Unread{{reportsPart, "denied"}}
	if got := troublesOf(nobody.at(now)); strings.Contains(got, "nobody") {
		t.Errorf("nobody could be asked: %s", got)
	}
}

// TestViewPages: a viewer sees a page of the tags that match, in an order.
func TestViewPages(t *testing.T) {
	t.Parallel()
	i := &Installation{}
	for n := range 100 {
		i.Tags = append(i.Tags, Tag{Name: fmt.Sprintf("tag-%02d", n), Rate: float64(100 - n), Runway: float64(n%10) + 1})
	}
	for _, c := range []struct {
		q             Query
		matches, page int
		pages         int
		first         string
	}{
		{Query{Size: 30}, 100, 30, 4, "tag-00"},
		{Query{Size: 30, Page: 4}, 100, 10, 4, "tag-90"},
		{Query{Size: 30, Page: 99}, 100, 10, 4, "tag-90"},
		{Query{Size: 30, Search: "TAG-7"}, 10, 10, 1, "tag-70"},
		{Query{Size: 30, Search: "none"}, 0, 0, 1, ""},
		{Query{Size: 5, Sort: ByRunway, Page: 3}, 100, 5, 20, "tag-01"},
		{Query{Size: 5, Sort: ByName, Search: "9"}, 19, 5, 4, "tag-09"},
	} {
		v := i.View(c.q)
		first := ""
		if len(v.Page) > 0 {
			first = v.Page[0].Name
		}
		if v.Matches != c.matches || len(v.Page) != c.page || v.Pages != c.pages || first != c.first {
			t.Errorf("%+v: %d match, %d on the page, %d pages, first %s; want %+v", c.q, v.Matches, len(v.Page), v.Pages, first, c)
		}
	}
}

// TestTextCannotControlTheTerminal: names are shown without what a terminal acts upon.
func TestTextCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b[2J\u202e\nb\u0007\xff"
	r := reportOf(evil, worker.RoleAll, worker.TagStats{Tag: evil, Order: evil})
	r.Host, r.Version, r.NotReady = evil, evil, evil
	c := &collection{
		Collector: NewCollector(Config{Prefix: "ids"}), reports: []worker.Report{r},
		workerIDs:   workerIDs{all: []WorkerID{{Instance: evil, Host: evil}}},
		enrichments: []Enrichment{{Source: evil, Target: evil, Enricher: evil}}, unread: []Unread{{evil, evil}},
	}
	var out bytes.Buffer
	if err := c.at(now).View(Query{Size: 10}).Print(&out); err != nil {
		t.Fatal(err)
	}
	if !utf8.ValidString(out.String()) || strings.ContainsAny(out.String(), "\x1b\u202e\u0007\r") || !strings.Contains(out.String(), "a?[2J??b??") {
		t.Errorf("%q", out.String())
	}
}

// TestOneCollectionForAll: however many look and reload, processes are asked no more often than every two seconds; and not at
// all while nobody looks. Then there is no connection either.
func TestOneCollectionForAll(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	var asked, dialled atomic.Int64
	if _, err := micro.AddService(ns.Connect(t), micro.Config{
		Name: worker.ProcessServiceName, Version: "0.1.0",
		Metadata: map[string]string{
			"instance": "a", "installation": "I", "created": now.Format(time.RFC3339Nano), "role": "all", "prefix": "ids",
		},
		StatsHandler: func(*micro.Endpoint) any {
			asked.Add(1)
			return worker.Report{}
		},
		Endpoint: &micro.EndpointConfig{Subject: "anything", Handler: micro.HandlerFunc(func(micro.Request) {})},
	}); err != nil {
		t.Fatal(err)
	}
	var conn *nats.Conn
	shared := NewShared(NewCollector(Config{
		Prefix: messages.DefaultPrefix,
		Dial: func() (_ *nats.Conn, js jetstream.JetStream, err error) {
			dialled.Add(1)
			if conn, err = nats.Connect(ns.URL(), Options()...); err != nil {
				return nil, nil, err
			}
			js, err = jetstream.New(conn)
			return conn, js, err
		},
	}))
	defer shared.Close()
	began, views := time.Now(), atomic.Int64{}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for views.Load() < 1000 || asked.Load() < 2 {
				if _, err := shared.Get(t.Context()); err != nil {
					t.Error(err)
					return
				}
				views.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	if most := int64(time.Since(began)/shownFor) + 1; asked.Load() > most || dialled.Load() != 1 {
		t.Errorf("%d views cost %d questions and %d connections, want at most %d and 1", views.Load(), asked.Load(), dialled.Load(), most)
	}
	shared.rest()
	if !conn.IsClosed() {
		t.Error("nobody looks, and the connection is still there")
	}
	natstest.Eventually(t, "the worker to be seen again", func() bool { // it answered in time
		i, err := shared.Get(t.Context())
		return err == nil && i.Totals.Workers == 1
	})
	if n := dialled.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// TestGetEndsWithItsViewer: who goes away does not wait, and does not end the collection for the others.
func TestGetEndsWithItsViewer(t *testing.T) {
	t.Parallel()
	dials, free := make(chan struct{}), make(chan struct{})
	shared := NewShared(NewCollector(Config{Dial: func() (*nats.Conn, jetstream.JetStream, error) {
		close(dials)
		<-free
		return nil, nil, nats.ErrNoServers
	}}))
	defer shared.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-dials; cancel() }()
	if _, err := shared.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(free)
	i, err := shared.Get(t.Context())
	if err != nil || len(i.Unread) != 1 || i.Unread[0].What != everything {
		t.Errorf("%v, %+v", err, i)
	}
}

// TestLies: no number that a process tells can stop whoever looks.
func TestLies(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{math.MinInt64, -1, math.MaxInt64} {
		tag := worker.TagStats{Tag: "order", Step: 1, Left: n, Rate: float64(n) * 1e200, Runway: float64(n), Parked: int(n)}
		r := reportOf("a", worker.RoleAll, tag, worker.TagStats{Tag: "invoice", Step: n, Left: n, Rate: -float64(n)})
		r.Stats.Active, r.Stats.Parked = int(n), int(n)
		r.Stats.Grants = worker.GrantStats{Installed: n, Burnt: n, Below: n}
		r.Clock, r.Overloads = &worker.ClockStats{AheadMS: n}, &worker.OverloadStats{Times: n}
		c := &collection{Collector: NewCollector(Config{Prefix: "ids"}), reports: []worker.Report{r, r}}
		var text bytes.Buffer
		if err := c.at(now).View(Query{Size: 10}).Print(&text); err != nil || !strings.Contains(text.String(), "order") {
			t.Errorf("%d: %v, %s", n, err, text.String())
		}
		_ = Count(n) + Rate(float64(n)*1e200)
	}
}
