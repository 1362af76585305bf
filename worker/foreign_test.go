package worker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/neighbours"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestForeignLoadEvents: a loader gives nothing to a worker of another installation, which
// counts in another store, however the event came. It removes the event from the stream. A
// worker of a version that does not say where it belongs gets its segment.
func TestForeignLoadEvents(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := &gate{Store: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	createTags(t, s, 10, "order")
	conn := net.Connect(t)
	grants, err := conn.SubscribeSync(loads.GrantSubject(messages.DefaultPrefix, "me"))
	if err != nil {
		t.Fatal(err)
	}
	js := newJetStream(t, net)
	foreign := loads.Event{Instance: "me", Tag: "order", Step: 10, Seq: 1, Installation: "another"}
	if err := conn.Publish(loads.ReserveSubject(messages.DefaultPrefix), foreign.Encode()); err != nil {
		t.Fatal(err)
	}
	foreign.Seq = 2
	if _, err := js.Publish(t.Context(), loads.Subject(messages.DefaultPrefix, "me", "order"), foreign.Encode()); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "both to be dropped, one of them from the stream", func() bool {
		stream, err := js.Stream(t.Context(), loads.StreamName(messages.DefaultPrefix))
		return err == nil && stream.CachedInfo().State.Msgs == 0 && scrape(t, w)["foreign_messages_total/load_event"] == 2
	})

	unnamed := loads.Event{Instance: "me", Tag: "order", Step: 10, Seq: 3}
	first := reserve(t, conn, grants, unnamed)
	if first.Seq != 3 || first.First != 1 || first.Installation == "" {
		t.Errorf("the first grant is %+v, want the first IDs for load 3, and the loader's installation", first)
	}
	own := loads.Event{Instance: "me", Tag: "order", Step: 10, Seq: 4, Installation: first.Installation}
	if second := reserve(t, conn, grants, own); second.Seq != 4 || second.First != 11 {
		t.Errorf("the second grant is %+v", second)
	}
	if calls := s.calls.Load(); calls != 2 {
		t.Errorf("%d calls of the store, want 2", calls)
	}
}

// reserve asks a loader by plain message.
func reserve(t *testing.T, conn *nats.Conn, grants *nats.Subscription, event loads.Event) loads.Grant {
	t.Helper()
	if err := conn.Publish(loads.ReserveSubject(messages.DefaultPrefix), event.Encode()); err != nil {
		t.Fatal(err)
	}
	msg, err := grants.NextMsg(natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := loads.DecodeGrant(msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

// TestForeignGrant: a worker does not use what the loader of another installation granted. It
// does use the grant of a loader that does not say where it belongs.
func TestForeignGrant(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	conn := net.Connect(t)
	events, err := conn.SubscribeSync(loads.ReserveSubject(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	createTags(t, newStore(t, net, 1), 10, "order")
	c := newClient(t, net)
	got := make(chan []messages.Range, 1)
	go func() {
		defer close(got)
		ranges, err := c.patiently("order", 1)
		if err != nil {
			t.Error(err)
		}
		got <- ranges
	}()
	msg, err := events.NextMsg(natstest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	event, err := loads.DecodeEvent(msg.Data, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if stats := serviceStats(t, c); event.Installation == "" || event.Installation != stats.Installation {
		t.Errorf("the load event is of installation %q, STATS say %q", event.Installation, stats.Installation)
	}
	for _, grant := range []loads.Grant{
		{First: 1, End: 101, Step: 10, Order: store.Trend, Installation: "another"},
		{Refused: messages.CodeNoTag, Installation: "another"},
		{First: 1001, End: 1101, Step: 10, Order: store.Trend},
	} {
		grant.Instance, grant.Tag, grant.Seq = event.Instance, event.Tag, event.Seq
		if err := conn.Publish(loads.GrantSubject(messages.DefaultPrefix, event.Instance), grant.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	if ranges := <-got; len(ranges) != 1 || ranges[0].First != 1001 {
		t.Fatalf("the IDs are %v, want 1001", ranges)
	}
	natstest.Eventually(t, "the grant to be counted", func() bool { return scrape(t, w)["grants_total/installed"] == 1 })
	expect(t, scrape(t, w), map[string]float64{
		"foreign_messages_total/grant": 2, "grants_total/refused": 0, "grants_total/burnt": 0,
	})
}

// helloOf is what a process of a much older installation says, spelled out.
func helloOf(serving string) []byte {
	return []byte(`{"installation":"older","created":"2001-01-01T00:00:00Z","instance":"W0","host":"away","serving":` + serving + `}`)
}

// TestGivesWay: a process of any role that meets an older installation leaves the queue
// groups, and whoever asks is told why.
func TestGivesWay(t *testing.T) {
	t.Parallel()
	for _, role := range []worker.Role{worker.RoleAll, worker.RoleWorker, worker.RoleLoader} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			net := worker.NewAccount(t)
			s := newStore(t, net, 1)
			w := startWorker(t, net, worker.Config{Role: role, Store: s})
			conn := net.Connect(t)
			nobody := func(subject string) bool {
				_, err := conn.Request(subject, nil, time.Second)
				return errors.Is(err, nats.ErrNoResponders)
			}
			var subjects []string
			if role != worker.RoleLoader {
				subjects = append(subjects, messages.DefaultPrefix.Segment("order"), messages.DefaultPrefix.Snowflake())
			}
			if role != worker.RoleWorker {
				subjects = append(subjects, loads.ReserveSubject(messages.DefaultPrefix))
			}
			for _, subject := range subjects {
				natstest.Eventually(t, "somebody at "+subject, func() bool { return !nobody(subject) })
			}
			answers, err := conn.SubscribeSync("ids.hello.W0")
			if err == nil {
				err = conn.Publish("ids.hello", helloOf("true"))
			}
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := answers.NextMsg(natstest.Patience); err != nil || !strings.Contains(string(answer.Data), w.Instance()) {
				t.Errorf("the answer is %+v, %v", answer, err)
			}
			natstest.Eventually(t, "the process to leave", func() bool { return errors.Is(w.Ready(), neighbours.ErrForeign) })
			for _, subject := range subjects {
				natstest.Eventually(t, "nobody at "+subject, func() bool { return nobody(subject) })
			}
			expect(t, scrape(t, w), map[string]float64{"installation_conflict": 1, "foreign_processes_met_total": 1})
			if role == worker.RoleLoader {
				return
			}
			// It leaves at once, and connects anew for those who ask how it is.
			natstest.Eventually(t, "somebody to answer STATS", func() bool { return !nobody("$SRV.STATS." + worker.ServiceName) })
			if stats := serviceStats(t, newClient(t, net)); stats.Instance != w.Instance() || !strings.Contains(stats.LeftFor, "older (since 2001-01-01") {
				t.Errorf("STATS: %+v", stats)
			}
		})
	}
}

// TestRefusesToStart: beside an older installation no process starts, and it leaves nothing
// behind.
func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	conn := net.Connect(t)
	_, err := conn.QueueSubscribe("ids.hello", "older", func(*nats.Msg) {
		_ = conn.Publish("ids.hello", helloOf("false")) // the last one may come when the test is over
	})
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []worker.Role{worker.RoleAll, worker.RoleWorker, worker.RoleLoader} {
		cfg := worker.Config{Role: role, Store: s, Requests: net.Connect(t), Control: net.Connect(t), Version: "0.0.1"}
		_, err := worker.Start(t.Context(), cfg)
		var foreign *neighbours.ForeignError
		if !errors.As(err, &foreign) || foreign.Other.Host != "away" {
			t.Errorf("%s: %v, want a ForeignError", role, err)
		}
		for _, conn := range []*nats.Conn{cfg.Requests, cfg.Control} {
			// A connection that has made requests has a subscription for the replies.
			if n := conn.NumSubscriptions(); n > 1 {
				t.Errorf("%s: %d subscriptions are left", role, n)
			}
		}
	}
}
