package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// waitsFor is how long a test waits for reports.
const waitsFor = 3 * time.Second

// ask asks for reports.
func ask(t *testing.T, conn *nats.Conn, tags int, expected ...string) ([]worker.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitsFor)
	defer cancel()
	return worker.AskReports(ctx, conn, messages.DefaultPrefix, tags, expected)
}

// TestReports: each process tells how it is, and of as many of its busiest tags as it is asked for: in parts, if they are
// many.
func TestReports(t *testing.T) {
	const many = 600 // two parts
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	both := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	alone := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s, StoreName: "jetstream"})
	c := newClient(t, net)
	var names []string
	for n := range many {
		names = append(names, fmt.Sprintf("%s.%d", strings.Repeat("x", 100), n))
	}
	createTags(t, net, s, 10, names...)
	for _, name := range names {
		c.must(name)
	}
	for _, want := range []int{many, 10, 0} {
		reports, err := ask(t, c.conn, want)
		if err != nil || len(reports) != 2 {
			t.Fatalf("%d reports, %v", len(reports), err)
		}
		i := slices.IndexFunc(reports, func(r worker.Report) bool { return r.Instance == both.Instance() })
		if i < 0 || reports[1-i].Instance != alone.Instance() {
			t.Fatalf("reports of %s and %s", reports[0].Instance, reports[1].Instance)
		}
		w, l := reports[i], reports[1-i]
		if len(w.Stats.Tags) != want || w.Stats.Active != many || w.Known != many || w.NotReady != "" || w.Requests["ok"] < many {
			t.Errorf("the worker tells of %d tags, want %d: %+v", len(w.Stats.Tags), want, w)
		}
		if !w.Answers() || !w.Loads() || l.Answers() || !l.Loads() || l.Outages == nil || l.Outages.Now || l.Stats.Installation != w.Stats.Installation {
			t.Errorf("the loader tells %+v", l)
		}
	}
}

// TestSilenceProvesNothing: only the server can say that nobody is there. A process that is expected is waited for.
func TestSilenceProvesNothing(t *testing.T) {
	net := natstest.Start(t)
	conn := net.Connect(t)
	if reports, err := ask(t, conn, 10); err != nil || len(reports) != 0 {
		t.Errorf("%d reports, %v, where the server knows that nobody is there", len(reports), err)
	}
	silent, err := net.Connect(t).Subscribe("ids.report", func(*nats.Msg) {})
	if err == nil {
		err = silent.SetPendingLimits(-1, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "somebody may be there, and nobody answers", func() bool {
		_, err := ask(t, conn, 10)
		return errors.Is(err, worker.ErrNoReports)
	})
	s := newStore(t, net, 1)
	w := startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	began := time.Now()
	reports, err := ask(t, conn, 10, w.Instance(), "dead")
	if err != nil || len(reports) != 1 || time.Since(began) < waitsFor-time.Second {
		t.Errorf("%d reports, %v after %v: want that of the one that lives, when the time for the other is up", len(reports), err, time.Since(began))
	}
}

// TestReportGoesNowhereElse: whatever a question says, a process publishes its answer below ids.report only.
func TestReportGoesNowhereElse(t *testing.T) {
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	conn := net.Connect(t)
	heard := make(chan *nats.Msg, 100)
	for _, subject := range []string{"ids.report.>", "elsewhere.>"} {
		if _, err := conn.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	for _, question := range []string{
		"", "{", `{"asker":""}`, `{"asker":"a.b"}`, `{"asker":">"}`, `{"asker":"*"}`, `{"asker":"a b"}`, `{"asker":"` + strings.Repeat("a", 33) + `"}`,
		`{"asker":"a\r\nPUB x 1"}`, `{"tags":5}`, `{"asker":7}`, `{"asker":"good","tags":-1}`,
	} {
		if err := conn.PublishRequest("ids.report", "elsewhere.reply", []byte(question)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case msg := <-heard:
		if msg.Subject != "ids.report.good" {
			t.Errorf("an answer at %s", msg.Subject)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no answer to the good question, which was the last one")
	}
	if err := conn.Flush(); err != nil || len(heard) > 0 {
		t.Errorf("%v, %d more answers", err, len(heard))
	}
}
