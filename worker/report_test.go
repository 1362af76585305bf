package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// ask asks for reports. It may be too early, or not wait for long enough.
func ask(t *testing.T, conn *nats.Conn, tags int, expected ...string) []worker.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	reports, err := worker.AskReports(ctx, conn, messages.DefaultPrefix, tags, expected)
	if err != nil && !errors.Is(err, worker.ErrNoReports) {
		t.Error(err)
	}
	return reports
}

// TestReports: each process tells how it is, and of as many of its busiest tags as it is asked for.
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
	for _, want := range []int{many, 10, 0} {
		var w, l worker.Report
		natstest.Eventually(t, "both reports", func() bool {
			for _, r := range ask(t, c.conn, want, both.Instance(), alone.Instance()) {
				switch r.Instance {
				case both.Instance():
					w = r
				case alone.Instance():
					l = r
				}
			}
			return w.Instance != "" && l.Instance != ""
		})
		if len(w.Stats.Tags) != want || w.Stats.Active != many || w.NotReady != "" || w.Requests["ok"] < many {
			t.Errorf("the worker tells of %d tags, want %d: %+v", len(w.Stats.Tags), want, w)
		}
		if !w.Answers() || !w.Loads() || l.Answers() || !l.Loads() || l.Outages == nil || l.Outages.Now || l.Stats.Installation != w.Stats.Installation {
			t.Errorf("the loader tells %+v", l)
		}
	}
}

// TestReportGoesNowhereElse: whatever a question says, a process publishes its answer below ids.report only.
func TestReportGoesNowhereElse(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
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
	case <-time.After(natstest.Patience):
		t.Fatal("no answer to the good question, which was the last one")
	}
	if err := conn.Flush(); err != nil || len(heard) > 0 {
		t.Errorf("%v, %d more answers", err, len(heard))
	}
}
