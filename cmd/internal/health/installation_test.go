package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/forecast"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func reportOf(instance string, role worker.Role, tags ...worker.TagStats) worker.Report {
	return worker.Report{Instance: instance, Role: role, Stats: worker.Stats{SupplyFigures: worker.SupplyFigures{Active: len(tags), Tags: tags}, Installation: "I"}}
}

// merged returns the installation for these reports.
func merged(when time.Time, reports []worker.Report, answers ...func(*collection)) *Installation {
	c := &collection{by: new(Collector), Installation: new(Installation), reports: reports}
	for _, add := range answers {
		add(c)
	}
	c.merge(when)
	return c.Installation
}

// TestTagsOfAllWorkers: the reports about a tag are added up, except that its
// runway is that of the worker that runs out first.
func TestTagsOfAllWorkers(t *testing.T) {
	t.Parallel()
	i := merged(now, []worker.Report{
		reportOf("a", worker.RoleAll, worker.TagStats{Tag: "order", Order: "trend", Step: 200, Left: 150, Rate: 2, Runway: 75}, worker.TagStats{Tag: "new.1", Order: "strict", Rate: 1, Runway: 9}),
		reportOf("b", worker.RoleWorker, worker.TagStats{Tag: "order", Order: "trend", Step: 100, Left: 60, Rate: 1, Runway: 60, Parked: 2}),
	})
	want := []TagState{
		{Name: "order", Order: "trend", Workers: 2, Step: 200, Left: 210, Room: 600, Rate: 3, Runway: 60, Parked: 2, Short: true, Level: Warning},
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

// TestTagsNotShown: text and page distinguish what workers always leave out from
// what a NATS server makes them leave out.
func TestTagsNotShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		active, cut int
		want        string
	}{
		{1, 0, ""},
		{1000, 0, "Workers report only their busiest tags; not shown: up to 999 others."},
		{1000, 499, "Workers report only their busiest tags; not shown: up to 999 others, 499 of them because of a small max_payload."},
	} {
		r := reportOf("a", worker.RoleAll, worker.TagStats{Tag: "order", Order: "trend", Runway: 1e9})
		r.Stats.Active, r.Stats.Cut = c.active, c.cut
		i := merged(now, []worker.Report{r, reportOf("b", worker.RoleWorker)})
		var text, html bytes.Buffer
		if err := errors.Join(i.View("", ByRate, 10).Print(&text), page.Execute(&html, i.View("", ByRate, 10))); err != nil {
			t.Fatal(err)
		}
		for form, got := range map[string]string{"text": text.String(), "page": html.String()} {
			if !strings.Contains(got, c.want) || strings.Contains(got, "not shown") != (c.want != "") {
				t.Errorf("%d active, %d cut: no %q in the %s\n%s", c.active, c.cut, c.want, form, got)
			}
		}
	}
}

// TestOtherInstallations: their processes are left out, with a warning.
func TestOtherInstallations(t *testing.T) {
	t.Parallel()
	foreign := reportOf("b", worker.RoleAll, worker.TagStats{Tag: "theirs"})
	foreign.Stats.Installation = "J"
	i := merged(now, []worker.Report{reportOf("a", worker.RoleAll, worker.TagStats{Tag: "order", Order: "strict"}), foreign}, func(c *collection) { c.ID = "I" })
	if i.Totals.Workers != 1 || i.Totals.Loaders != 1 || i.Totals.TagsActive != 1 || len(i.Processes) != 1 || len(i.Tags) != 1 {
		t.Errorf("another installation is counted: %+v", i.Totals)
	}
	if got := troublesOf(i); got != "warning other installations: not counted here: their processes on the same subjects, 1" {
		t.Error(got)
	}
}

// TestOtherRegion: processes that may serve side by side are listed, and are
// neither counted nor a problem.
func TestOtherRegion(t *testing.T) {
	t.Parallel()
	at := func(datacenter int64) worker.Report {
		r := reportOf(fmt.Sprint("p", datacenter), worker.RoleSnowflake)
		r.Layout, r.Datacenter = snowflake.Twitter().String(), &datacenter
		return r
	}
	own, same, other := at(1), at(1), at(2)
	same.Stats.Installation, other.Stats.Installation = "J", "K"
	i := merged(now, []worker.Report{own, other, other}, func(c *collection) { c.ID = "I" })
	var text bytes.Buffer
	if err := i.View("", ByRate, 5).Print(&text); err != nil {
		t.Fatal(err)
	}
	if troublesOf(i) != "" || i.Totals.Workers != 1 || !strings.Contains(text.String(), "2 processes of another installation, datacenter 2\n") {
		t.Errorf("%+v: %s\n%s", i.Totals, troublesOf(i), text.String())
	}
	i = merged(now, []worker.Report{own, same}, func(c *collection) { c.ID = "I" })
	if !strings.Contains(troublesOf(i), "warning other installations: not counted here") {
		t.Errorf("the same datacenter: %q", troublesOf(i))
	}
}

// TestShortMemory: a newly used tag has a small buffer, and no warning, unless
// requests are parked or no more IDs come. The worst tags come first.
func TestShortMemory(t *testing.T) {
	t.Parallel()
	begun, settled := forecast.Use{High: 1, Rate: 1, Seconds: 299}, forecast.Use{High: 1, Rate: 1, Seconds: 300}
	failing := reportOf("l", worker.RoleLoader)
	failing.Outages = &worker.OutageStats{Now: true}
	for _, c := range []struct {
		tag     worker.TagStats
		failing bool
		want    string
	}{
		{worker.TagStats{Left: 100, Rate: 10, Runway: 10}, false, ""},
		{worker.TagStats{Left: 100, Rate: 10, Runway: 10, Use: begun}, false, ""},
		{worker.TagStats{Left: 100, Rate: 10, Runway: 10, Use: settled}, false, "warning tag order: buffers last 10 s at 10 IDs a second"},
		{worker.TagStats{Left: 100, Rate: 1, Runway: 100, Use: settled}, false, "warning tag order: buffers last 100 s at 1 ID a second"},
		{worker.TagStats{Left: 100, Rate: 0.3, Runway: 301, Use: settled}, true, ""},
		{worker.TagStats{Left: 100, Rate: 10, Runway: 10, Parked: 3}, false, "error tag order: buffers last 10 s at 10 IDs a second, with 3 parked requests"},
		{worker.TagStats{Left: 100, Rate: 10, Runway: 10}, true, "error tag order: buffers last 10 s at 10 IDs a second"},
		{worker.TagStats{}, false, ""},
		{worker.TagStats{}, true, "error tag order: a worker has none of its IDs buffered"},
		{worker.TagStats{Order: "strict", Parked: 3}, true, ""},
	} {
		c.tag.Tag = "order"
		reports := []worker.Report{reportOf("a", worker.RoleAll, c.tag)}
		if c.failing {
			reports = append(reports, failing)
		}
		got := ""
		for _, line := range strings.Split(troublesOf(merged(now, reports)), "\n") {
			if strings.Contains(line, "tag order:") {
				got = line
			}
		}
		if got != c.want {
			t.Errorf("%+v, store fails: %v: %q, want %q", c.tag, c.failing, got, c.want)
		}
	}
	first := merged(now, []worker.Report{reportOf(
		"a", worker.RoleAll, worker.TagStats{Tag: "busy", Left: 9, Rate: 9, Runway: 1}, worker.TagStats{Tag: "waits", Left: 1, Rate: 1, Runway: 1, Parked: 1},
		worker.TagStats{Tag: "empty"}, worker.TagStats{Tag: "rests", Left: 5, Runway: 1e7},
	)}).EndFirst(5)
	if len(first) != 3 || first[0].Name != "waits" || first[1].Name != "empty" || first[2].Name != "busy" {
		t.Errorf("%+v", first)
	}
}

func troublesOf(i *Installation) string {
	var all []string
	for _, t := range i.Troubles {
		all = append(all, fmt.Sprintf("%s %s: %s", t.Severity, t.What, t.Text))
	}
	return strings.Join(all, "\n")
}

// TestTroubles: each problem appears once, errors first. A missing role is a
// problem only if reports could be read.
func TestTroubles(t *testing.T) {
	t.Parallel()
	overloaded := reportOf("w1", worker.RoleWorker)
	overloaded.Overloads = &worker.OverloadStats{Now: true, Times: 3}
	overloaded.NotReady = "not in the segment queue group: overloaded"
	off := reportOf("w2", worker.RoleWorker)
	id := int64(7)
	off.Stats.WorkerID, off.Clock, off.Stats.NoLoader, off.Degraded = &id, &worker.ClockStats{AheadMS: -1700, ReservedIn: 3}, "no loader answers", "no loader answers"
	none := reportOf("w3", worker.RoleWorker)
	none.Stats.NoWorker, none.Stats.Grants.Below = "all are taken", 2
	failing := reportOf("l1", worker.RoleLoader)
	failing.Outages = &worker.OutageStats{Now: true, Times: 1, Since: now.Add(-time.Minute), Error: "refused"}
	lag := uint64(5)
	i := merged(now, []worker.Report{overloaded, off, none, failing}, func(c *collection) {
		c.WorkerIDs = []WorkerID{{Instance: "w1"}, {Worker: 1, Instance: "w4", Host: "h4", heard: now.Add(-8 * time.Second)}, {Worker: 2, Host: "old"}}
		c.Enrichments = []EnrichmentState{{Source: "A", Target: "B", Stalled: true, Written: now.Add(-time.Minute), Lag: &lag}, {Source: "C", Target: "D", Oldest: now.Add(-2 * time.Minute)}, {Source: "E", Target: "F", Failing: "stream E was created again"}}
		c.Checks = []Diagnosis{{What: "sync", Severity: Error, Text: "not"}, {What: "server", Text: "fine"}}
		c.Unread = []Unread{{What: "worker IDs", Why: "no answer"}, {What: "enrichments", Why: "denied", Denied: true}}
	})
	want := `error worker w1: overloaded, and off the queue groups until its backlog clears; start more workers
error worker w2: no loader answers
error loader l1: store  has failed for 60 s (refused); no tag that is buffered is in use
error enrichment A to B: no enricher has worked for 60 s: none runs, or one is blocked (see its log); 5 waiting events
error enrichment E to F: stopped: stream E was created again
error doctor: sync: not
warning worker w2: clock is -1.7s ahead of the NATS server's
warning worker w2: clock reserved for only 3 s more: heartbeats fail
warning worker w3: no worker ID for snowflake requests: all are taken
warning worker w3: discarded 2 ranges granted before: the store regressed
warning worker h4 (w4): holds a worker ID but does not report (last heartbeat 8.0 s ago): dead, paused or disconnected
warning enrichment C to D: the oldest waiting event is 2 min old
warning unknown: worker IDs: no answer`
	if got := troublesOf(i); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if i.Totals.Workers != 3 || i.Totals.WorkersExpected != 4 || i.Summary() != "Errors: 6, warnings: 7" {
		t.Errorf("%+v, %s", i.Totals, i.Summary())
	}
	if got := troublesOf(merged(now, nil)); !strings.Contains(got, "so requests fail") || !strings.Contains(got, "live on their buffers") {
		t.Errorf("without processes: %s", got)
	}
	for _, viewer := range []bool{true, false} { // to the user of a role that may not list processes, that is no problem
		i = merged(now, nil, func(c *collection) {
			c.by.Viewer, c.WorkerIDs = viewer, []WorkerID{{Instance: "w1"}}
			c.miss(reportsPart, &natsconn.RightsError{})
		})
		if got := troublesOf(i); strings.HasPrefix(got, "warning unknown: "+reportsPart) != viewer || len(i.Troubles) > 1 || !viewer && got != "" {
			t.Errorf("without reports, viewer %v: %s", viewer, got)
		}
	}
}

// plural matches one thing with a plural noun.
var plural = regexp.MustCompile(`\b1 (\w+ )?[A-Za-z]+s\b`)

// TestOneOfEach: a single thing has a singular noun, in the text and on the
// page.
func TestOneOfEach(t *testing.T) {
	t.Parallel()
	lag := uint64(1)
	busy := used("order", 9)
	busy.Use.Rate, busy.Runway, busy.Parked, busy.Step, busy.Left = 1, 1, 1, 1, 1
	failing := reportOf("l", worker.RoleLoader, worker.TagStats{Tag: "strict", Order: "strict", Rate: 1})
	failing.Outages = &worker.OutageStats{Now: true, Times: 1}
	failing.Stats.Grants.Below = 1
	var more []worker.TagStats
	for n := range int64(maxNamed) {
		tag := used(fmt.Sprint("t", n), 9)
		tag.Runway = 1
		more = append(more, tag)
	}
	crowded := reportOf("c", worker.RoleAll, more...)
	crowded.Stats.Active++
	for _, reports := range [][]worker.Report{{reportOf("a", worker.RoleAll, busy)}, {reportOf("a", worker.RoleAll, busy), failing, crowded}} {
		i := merged(now, reports, func(c *collection) {
			c.Enrichments = []EnrichmentState{{Source: "A", Target: "B", Stalled: true, Written: now, Lag: &lag}}
			c.Templates = templates.List{{Pattern: "*", Step: 1, MaxTags: 1}}
		})
		var text, html bytes.Buffer
		if err := errors.Join(i.View("", ByRate, 10).Print(&text), page.Execute(&html, i.View("order", ByRate, 1))); err != nil {
			t.Fatal(err)
		}
		if got := plural.FindAllString(text.String()+html.String(), -1); got != nil {
			t.Errorf("%q in:\n%s\n%s", got, &text, &html)
		}
	}
}

// TestMissingRightIsANote: a missing right to read a part is not a problem. That
// to read enrichments, which have another account with nats.conf, is no news.
func TestMissingRightIsANote(t *testing.T) {
	t.Parallel()
	id := int64(708)
	holder := reportOf("a", worker.RoleAll)
	holder.Stats.WorkerID = &id
	i := merged(now, []worker.Report{holder}, func(c *collection) {
		c.miss(enrichmentsPart, &natsconn.RightsError{Missing: rights.Publish("y")})
	})
	if i.Summary() != "All is well" || len(i.Unread) != 1 {
		t.Errorf("%s: %+v", i.Summary(), i.Unread)
	}
	i = merged(now, []worker.Report{holder}, func(c *collection) {
		c.miss(enrichmentsPart, &natsconn.RightsError{Missing: rights.Publish("y")})
		c.miss(configPart, &natsconn.RightsError{Missing: rights.Publish("x")})
	})
	var out bytes.Buffer
	if err := i.View("", ByRate, 10).Print(&out); err != nil || !strings.Contains(out.String(), " 0       708 ") {
		t.Fatalf("%v\n%s", err, &out)
	}
	if len(i.Troubles) > 0 || i.Summary() != "No known problems, but parts are unknown" || !strings.Contains(out.String(), "\nno known problems, but parts are unknown\nnote     unknown: templates: this NATS user lacks a right: the user may not publish x\n\n") {
		t.Errorf("%s: %+v\n%s", i.Summary(), i.Troubles, &out)
	}
}

// TestView: a viewer gets the first of the matching tags, in an order.
func TestView(t *testing.T) {
	t.Parallel()
	i := &Installation{}
	for n := range 100 {
		i.Tags = append(i.Tags, TagState{Name: fmt.Sprintf("tag-%02d", n), Rate: float64(100 - n), Runway: float64(n%10) + 1})
	}
	for _, c := range []struct {
		search         string
		by             Sort
		n              int
		first          string
		matches, shown int
	}{
		{"", ByRate, 30, "tag-00", 100, 30},
		{"TAG-7", ByRate, 30, "tag-70", 10, 10},
		{"none", ByRate, 30, "", 0, 0},
		{"5", ByRunway, 5, "tag-50", 19, 5},
		{"9", ByName, 5, "tag-09", 19, 5},
	} {
		v, first := i.View(c.search, c.by, c.n), ""
		if len(v.Shown) > 0 {
			first = v.Shown[0].Name
		}
		if v.Matches != c.matches || len(v.Shown) != c.shown || v.More() != c.matches-c.shown || first != c.first {
			t.Errorf("%+v: %d match, %d shown, first %s", c, v.Matches, len(v.Shown), first)
		}
	}
}

// TestTextCannotControlTheTerminal: names are shown without control characters.
func TestTextCannotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b[2J\u202e\nb\u0007\xff"
	r := reportOf(evil, worker.RoleAll, worker.TagStats{Tag: evil, Order: evil})
	r.Host, r.Version, r.NotReady = evil, evil, evil
	i := merged(now, []worker.Report{r}, func(c *collection) {
		c.WorkerIDs = []WorkerID{{Instance: evil, Host: evil}, {Instance: evil + evil, Host: evil}}
		c.Enrichments = []EnrichmentState{{Source: evil, Target: evil, Enricher: evil, Failing: evil}}
		c.Unread = []Unread{{What: evil, Why: evil}, {What: evil, Why: evil, Denied: true}}
		c.ID, c.Prefix = evil, evil
		c.reports[0].Stats.Installation = evil
	})
	var out bytes.Buffer
	if err := i.View("", ByRate, 10).Print(&out); err != nil {
		t.Fatal(err)
	}
	if !utf8.ValidString(out.String()) || strings.ContainsAny(out.String(), "\x1b\u202e\u0007\r") || !strings.Contains(out.String(), "a?[2J??b??") {
		t.Errorf("%q", out.String())
	}
}

// TestOneCollectionForAll: with any number of viewers and reloads, there is a
// collection every two seconds, and without viewers none.
func TestOneCollectionForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		collected := 0
		page := newPage(func(context.Context) *Installation {
			collected++
			time.Sleep(100 * time.Millisecond)
			return &Installation{Taken: time.Now()}
		})
		defer page.Close()
		for range 100 { // 10 s
			for range 20 {
				go func() {
					if i, err := page.get(t.Context()); err != nil || time.Since(i.Taken) > shownFor {
						t.Errorf("%v, %+v", err, i)
					}
				}()
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		if collected < 4 || collected > 6 {
			t.Errorf("%d collections in 10 s", collected)
		}
	})
}

// TestGetEndsWithItsViewer: a viewer that leaves does not wait, and does not
// end the collection for the others. Closing the page does.
func TestGetEndsWithItsViewer(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan struct{})
	page := newPage(func(ctx context.Context) *Installation {
		close(began)
		<-ctx.Done()
		close(ended)
		return new(Installation)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() { _, _ = page.get(ctx) })
	<-began
	cancel()
	if _, err := page.get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left waits: %v", err)
	}
	select {
	case <-ended:
		t.Error("the collection ended with its viewer")
	default:
	}
	page.Close()
	<-ended
	first.Wait()
}

// TestStatusOfACaller: for a user who may only request IDs, the single problem
// is that it may not list processes, and notes name the rights of each part.
// Nothing is concluded about the installation.
func TestStatusOfACaller(t *testing.T) {
	t.Parallel()
	caller := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{"ids.segment.>"}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
	}
	ns := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "caller", Password: "secret", Permissions: caller}}
	})
	i := (&Collector{
		Prefix: messages.DefaultPrefix,
		Dial:   dialAs(t, ns.URL(), "caller", "secret"),
		Role:   rights.Admin, Viewer: true,
	}).Collect(t.Context())
	want := "warning unknown: reports of workers and loaders: this NATS user may not list processes; " +
		"with nats.conf, monitor may: the NATS server denies this user a right: Permissions Violation for Publish to \"$SRV.STATS.idworker-process\""
	if got := troublesOf(i); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, u := range i.Unread {
		subject := map[string]string{enrichmentsPart: "KV_ids_enrich", configPart: "KV_ids_config", workerIDsPart: "KV_ids_config"}[u.What]
		if !strings.Contains(u.Why, subject) || u.Denied != (u.What != reportsPart) {
			t.Errorf("%+v, want the right for %s", u, subject)
		}
	}
	if len(i.Unread) != 5 {
		t.Errorf("%+v", i.Unread)
	}
}

// TestNoServer: a process that has lost its server shows itself, and that the
// rest is unknown.
func TestNoServer(t *testing.T) {
	t.Parallel()
	i := (&Collector{
		Dial: func() (*nats.Conn, jetstream.JetStream, error) { return nil, nil, nats.ErrNoServers },
		Self: func() (worker.Report, bool) { return reportOf("a", worker.RoleWorker), true },
	}).Collect(t.Context())
	want := "warning unknown: all but this process: nats: no servers available for connection"
	if got := troublesOf(i); got != want || len(i.Processes) != 1 || i.ID != "I" || i.Answered(1, 1) != "–" {
		t.Errorf("%q, want %q, and the process itself: %+v", got, want, i)
	}
}

// TestLies: no number that a process reports can break the page.
func TestLies(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{math.MinInt64, -1, math.MaxInt64} {
		tag := worker.TagStats{Tag: "order", Step: 1, Left: n, Rate: float64(n) * 1e200, Runway: float64(n), Parked: int(n)}
		r := reportOf("a", worker.RoleAll, tag, worker.TagStats{Tag: "invoice", Step: n, Left: n, Rate: -float64(n)})
		r.Stats.Active, r.Stats.Parked = int(n), int(n)
		r.Stats.Grants = worker.GrantStats{Installed: n, Burnt: n, Below: n}
		r.Clock, r.Overloads = &worker.ClockStats{AheadMS: n}, &worker.OverloadStats{Times: n}
		var text bytes.Buffer
		if err := merged(now, []worker.Report{r, r}).View("", ByRate, 10).Print(&text); err != nil || !strings.Contains(text.String(), "order") {
			t.Errorf("%d: %v, %s", n, err, text.String())
		}
		_ = format.Count(n) + format.Rate(float64(n)*1e200)
	}
}
