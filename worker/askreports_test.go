package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// ask requests reports once. It may be too early, or not wait long enough.
func ask(t *testing.T, conn *nats.Conn, expected ...string) []worker.Report {
	t.Helper()
	reports, err := worker.AskReports(t.Context(), conn, messages.DefaultPrefix, expected)
	if err != nil && !errors.Is(err, worker.ErrNoReports) && !errors.Is(err, worker.ErrCut) {
		t.Error(err)
	}
	return reports
}

// stats is an answer to STATS.
func stats(instance, prefix, report string) string {
	metadata, _ := json.Marshal(map[string]string{
		"instance": instance, "prefix": prefix, "installation": "I", "role": "worker", "created": "2026-11-22T12:00:00Z", "host": "here",
	})
	return fmt.Sprintf(`{"name":"idworker-process","id":"x","version":"0.2.0","metadata":%s,"endpoints":[{"data":%s}]}`, metadata, report)
}

// answerWith answers requests for STATS with texts.
func answerWith(t *testing.T, conn *nats.Conn, texts ...string) {
	t.Helper()
	_, err := conn.Subscribe("$SRV.STATS.idworker-process", func(msg *nats.Msg) {
		for _, text := range texts {
			if err := msg.Respond([]byte(text)); err != nil {
				t.Error(err)
			}
		}
	})
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReports: each process reports its state and its busiest tags, together
// with its identity.
func TestReports(t *testing.T) {
	t.Parallel()
	const many = 20
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	both := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	alone := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s, StoreName: "jetstream"})
	c := newClient(t, net)
	var names []string
	for n := range many {
		names = append(names, fmt.Sprint("tag", n))
	}
	createTags(t, s, 10, names...)
	for _, name := range names {
		c.must(name)
	}
	var w, l worker.Report
	natstest.Eventually(t, "both reports", func() bool {
		for _, r := range ask(t, c.conn, both.Instance(), alone.Instance()) {
			switch r.Instance {
			case both.Instance():
				w = r
			case alone.Instance():
				l = r
			}
		}
		return w.Instance != "" && l.Instance != "" && w.NotReady == ""
	})
	if len(w.Stats.Tags) != many || w.Stats.Active != many || w.Requests["ok"] < many {
		t.Errorf("the worker reports %d tags, want %d: %+v", len(w.Stats.Tags), many, w)
	}
	if _, err := alone.Direct(); !errors.Is(err, worker.ErrNotAnswering) {
		t.Errorf("a loader's direct way to IDs: %v", err)
	}
	if !w.Answers() || !w.Loads() || l.Answers() || !l.Loads() || l.Outages == nil || l.Outages.Now || l.Stats.Installation != w.Stats.Installation {
		t.Errorf("the loader reports %+v", l)
	}
}

// lowRaise is a store that was not raised enough.
type lowRaise struct{ store.Reserver }

func (lowRaise) Stopped() error { return &store.RegressionError{Bucket: "ids_register", Short: 180} }

// TestReportAfterRaise: a report has what the next raise of all tags has to know:
// the time, the lowest first ID of new tags, the highest segment, and how much
// the latest raise lacked.
func TestReportAfterRaise(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	createTags(t, newStore(t, net, 1), 100, "order")
	raiseAll(t, net, 5001, true)
	w := startWorker(t, net, worker.Config{Store: lowRaise{newStore(t, net, 1)}, StoreName: "jetstream"})
	c := newClient(t, net)
	c.must("order")
	var r worker.Report
	before := time.Now()
	natstest.Eventually(t, "the report", func() bool {
		reports := ask(t, c.conn, w.Instance())
		if len(reports) > 0 {
			r = reports[0]
		}
		return len(reports) > 0
	})
	if r.Time.Before(before) || r.Time.After(time.Now()) {
		t.Errorf("reported at %v, after %v", r.Time, before)
	}
	// The first load may be sent twice, and then be granted twice.
	if r.Floor != 5001 || r.RaiseBy != 180 || r.Stats.Highest < 5101 || (r.Stats.Highest-5001)%100 != 0 {
		t.Errorf("new tags begin at %d, want 5001; the raise lacked %d, want 180; the highest segment ends at %d, want 5101", r.Floor, r.RaiseBy, r.Stats.Highest)
	}
}

// TestMostTagsOfAReport: a report with the maximum number of tags, all with the
// longest names, is well below the limits of servers and readers.
func TestMostTagsOfAReport(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	var r worker.Report
	for n := range worker.MaxReportTags + 10 {
		name := fmt.Sprintf("%0*d", messages.MaxTagLen, n)
		r.Stats.Tags = append(r.Stats.Tags, worker.TagStats{Tag: name, Order: "strict", Step: 1 << 62, Left: 1 << 62, Rate: 1e-300 / 3, Runway: 1e300 / 3, Parked: math.MaxInt, Granted: 1 << 62, Issued: 1 << 62})
	}
	service, err := micro.AddService(net.Connect(t), micro.Config{
		Name: worker.ProcessServiceName, Version: "0.2.0",
		Metadata: map[string]string{
			"instance": "A", "installation": "I", "created": time.Now().Format(time.RFC3339Nano), "role": "all", "prefix": "ids",
		},
		StatsHandler: func(*micro.Endpoint) any { return r },
		Endpoint:     &micro.EndpointConfig{Subject: "anything", Handler: micro.HandlerFunc(func(micro.Request) {})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Stop() }()
	var reports []worker.Report
	conn := net.Connect(t)
	natstest.Eventually(t, "the report", func() bool {
		reports = ask(t, conn, "A")
		return len(reports) > 0
	})
	if text, err := json.Marshal(reports[0]); err != nil || len(text) > worker.LeastPayload {
		t.Errorf("%d bytes, %v; LeastPayload is %d", len(text), err, worker.LeastPayload)
	}
	if r := reports[0]; len(r.Stats.Tags) != worker.MaxReportTags || r.Role != worker.RoleAll {
		t.Errorf("%d tags, role %s", len(r.Stats.Tags), r.Role)
	}
}

// TestReportFits: a server with a small max_payload gets the busiest of a
// worker's 1,000 tags, and the number of those that were left out.
func TestReportFits(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	s := newStore(t, net, 1)
	w := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	var tags []string
	for n := range 1000 {
		tags = append(tags, fmt.Sprintf("%0*d", messages.MaxTagLen, n))
	}
	createTags(t, s, 100, tags...)
	c := newClient(t, net)
	for _, tag := range tags {
		c.must(tag)
	}
	natstest.Eventually(t, "the report", func() bool {
		reports := ask(t, c.conn, w.Instance())
		if len(reports) == 0 {
			return false
		}
		r := reports[0]
		if n := len(r.Stats.Tags); r.Stats.Active != len(tags) || n < 100 || n+r.Stats.Cut != worker.MaxReportTags || r.MaxPayload != 64<<10 {
			t.Errorf("%d of %d tags, %d cut, %d bytes", n, r.Stats.Active, r.Stats.Cut, r.MaxPayload)
		}
		return true
	})
	if stats := serviceStats(t, c); len(stats.Tags) < 100 || len(stats.Tags)+stats.Cut != worker.MaxReportTags {
		t.Errorf("STATS of the service that gets requests: %d tags, %d cut", len(stats.Tags), stats.Cut)
	}
}

// TestLyingReports: whatever a user with the right to answer sends, the caller
// continues, and accepts only possible reports of processes with the prefix.
func TestLyingReports(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	answers := []string{
		`null`, `[]`, `{}`, "",
		stats("B", "other", `{}`), stats("", "ids", `{}`), stats("a.b", "ids", `{}`), stats(strings.Repeat("x", 33), "ids", `{}`),
		strings.Replace(stats("C", "ids", `{}`), "idworker-process", "idworker", 1),
		strings.Replace(stats("D", "ids", `{}`), "2026-11-22T12:00:00Z", "0001-01-01T00:00:00Z", 1),
		strings.Replace(stats("D", "ids", `{}`), "2026-11-22T12:00:00Z", "yesterday", 1),
		strings.Replace(stats("E", "ids", `{}`), `"role":"worker"`, `"role":"king"`, 1),
		stats("E", "ids", `{"host":"`+strings.Repeat("x", 900_000)+`"}`), stats("F", "ids", strings.Repeat("[", 400_000)), stats("F2", "ids", `7`),
		stats("G", "ids", `{"instance":"H","role":"loader","host":"g","floor":-1,"raise_by":-1,"not_ready":"`+strings.Repeat("ö", 50_000)+`","claims":[{"floor":2,"sequence":9},{"by":"H","floor":1,"heard":true},{"floor":-1},{"floor":1,"tag":"x..y","next":1},{"by":"a.b","floor":1,"heard":true}],"stats":{"highest":-1,"tags":[{"tag":"y"},{"tag":"<script>"}]}}`),
		stats("G", "ids", `{"host":"another"}`),
	}
	for n := range 2000 {
		answers = append(answers, stats(fmt.Sprint("many", n), "ids", `{}`))
	}
	answerWith(t, net.Connect(t), answers...)
	asker := net.Connect(t)
	var reports []worker.Report
	natstest.Eventually(t, "reports", func() bool {
		reports = ask(t, asker)
		return len(reports) > 0 && reports[0].Instance == "G"
	})
	if len(reports) > 1000 {
		t.Errorf("%d reports", len(reports))
	}
	if g := reports[0]; g.Host != "g" || g.Role != worker.RoleWorker || g.NotReady != strings.Repeat("ö", 498)+"…" || len(g.Stats.Tags) != 1 || g.Stats.Tags[0].Tag != "y" ||
		g.Floor != 0 || g.RaiseBy != 0 || g.Stats.Highest != 0 || !g.Time.IsZero() {
		t.Errorf("%.300v", g)
	}
	if want := []store.Claim{{By: "G", Floor: 2, Sequence: 9}, {By: "H", Floor: 1, Heard: true}}; !slices.Equal(reports[0].Claims, want) {
		t.Errorf("claims %+v, want %+v", reports[0].Claims, want)
	}
	for _, r := range reports[1:] {
		if !strings.HasPrefix(r.Instance, "many") {
			t.Errorf("%.300v", r)
		}
	}
}

// TestCutLists: a list that lacks processes, because too many answer or at too great
// length, is returned with an error.
func TestCutLists(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	var answers []string
	for n := range 1001 {
		answers = append(answers, stats(fmt.Sprint("many", n), "ids", `{}`))
	}
	conn := net.Connect(t)
	answerWith(t, net.Connect(t), answers...)
	natstest.Eventually(t, "a list that is cut short", func() bool {
		reports, err := worker.AskReports(t.Context(), conn, messages.DefaultPrefix, nil)
		if len(reports) > 1000 || len(reports) == 1000 && err == nil {
			t.Fatalf("%d of 1001 reports, %v", len(reports), err)
		}
		return len(reports) > 0 && errors.Is(err, worker.ErrCut)
	})
}

// TestSilenceProvesNothing: an empty list means only that the server reported
// no connected process.
func TestSilenceProvesNothing(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	conn := net.Connect(t)
	natstest.Eventually(t, "the server reports that no process is connected", func() bool {
		reports, err := worker.AskReports(t.Context(), conn, messages.DefaultPrefix, nil)
		found, alsoErr := worker.ListProcesses(t.Context(), conn, messages.DefaultPrefix)
		if len(reports)+len(found) > 0 {
			t.Fatalf("no process is connected: %v, %v", reports, found)
		}
		return err == nil && alsoErr == nil
	})
	answerWith(t, net.Connect(t), stats("A", "other", "{}"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if reports, err := worker.AskReports(ctx, conn, messages.DefaultPrefix, nil); !errors.Is(err, worker.ErrNoReports) || len(reports) > 0 {
		t.Errorf("those of another prefix answer: %v, %v", reports, err)
	}
}

// TestSlowProcesses: the first answer and expected answers are awaited longer
// than others.
func TestSlowProcesses(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	const slow = 500 * time.Millisecond // twice the quiet time
	first, second := net.Connect(t), net.Connect(t)
	for after, conn := range map[time.Duration]*nats.Conn{slow: first, 2 * slow: second} {
		if _, err := conn.Subscribe("$SRV.STATS.idworker-process", func(msg *nats.Msg) {
			time.AfterFunc(after, func() { _ = msg.Respond([]byte(stats(after.String(), "ids", "{}"))) })
		}); err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	conn := net.Connect(t)
	natstest.Eventually(t, "a report", func() bool { return len(ask(t, conn)) > 0 })
	natstest.Eventually(t, "both reports", func() bool { return len(ask(t, conn, "500ms", "1s")) == 2 })
}
