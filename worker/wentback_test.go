package worker_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// handLoader is a loader whose grants the test decides. It sees load events as they are
// published, whether the load stream has room for them or not.
type handLoader struct {
	t      testing.TB
	conn   *nats.Conn
	tag    string
	events chan *nats.Msg
}

func newHandLoader(t testing.TB, net network, tag string) *handLoader {
	t.Helper()
	conn := net.Connect(t)
	events := make(chan *nats.Msg, 100)
	for _, subject := range []string{loads.Subject(messages.DefaultPrefix, "*", tag), loads.ReserveSubject(messages.DefaultPrefix)} {
		if _, err := conn.ChanSubscribe(subject, events); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return &handLoader{t, conn, tag, events}
}

// next returns the next load event, other than those of loads up to seq.
func (l *handLoader) next(seq uint64) loads.Event {
	l.t.Helper()
	for {
		var msg *nats.Msg
		select {
		case msg = <-l.events:
		case <-time.After(natstest.Patience):
			l.t.Fatal("no load event")
		}
		event, err := loads.DecodeEvent(msg.Data, 1<<40)
		if err != nil {
			l.t.Fatal(err)
		}
		if event.Tag == l.tag && event.Seq > seq {
			return event
		}
	}
}

func (l *handLoader) grant(event loads.Event, first, end int64) {
	l.t.Helper()
	g := loads.Grant{Instance: event.Instance, Tag: event.Tag, Seq: event.Seq, First: first, End: end, Step: 100, Order: store.Trend}
	if err := l.conn.Publish(loads.GrantSubject(messages.DefaultPrefix, event.Instance), g.Encode()); err != nil {
		l.t.Fatal(err)
	}
}

// TestStoreThatWentBackIsNoticed: one error for all the grants that prove it, each counted, and
// none of them is used.
func TestStoreThatWentBackIsNoticed(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	core, logs := observer.New(zap.ErrorLevel)
	s := newStore(t, net, 1)
	if err := worker.Provision(t.Context(), newJetStream(t, net), messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker, Log: zap.New(core)})
	createTags(t, s, 100, "order")
	c := newClient(t, net)
	loader := newHandLoader(t, net, "order")

	answered := make(chan error, 1)
	go func() {
		_, err := c.ask("order", 60)
		answered <- err
	}()
	first := loader.next(0)
	loader.grant(first, 1001, 1101)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	second := loader.next(first.Seq)
	loader.grant(first, 1001, 1101) // late, and no proof
	loader.grant(second, 1, 101)
	third := loader.next(second.Seq)
	loader.grant(third, 101, 201)
	natstest.Eventually(t, "both to be counted", func() bool { return scrape(t, w)["grants_total/below"] == 2 })
	loader.grant(third, 1101, 1201)
	natstest.Eventually(t, "the good one to be installed", func() bool {
		return scrape(t, w)["grants_total/installed"] == 2
	})
	expect(t, scrape(t, w), map[string]float64{"grants_total/burnt": 1, "grants_total/below": 2})
	if g := serviceStats(t, c).Grants; g != (worker.GrantStats{Installed: 2, Burnt: 1, Below: 2}) {
		t.Errorf("STATS of grants: %+v", g)
	}
	c.use("order", 140, 1060)
	if n := logs.FilterMessageSnippet("store regressed").Len(); n != 1 || logs.FilterField(zap.String("tag", "order")).Len() != 1 {
		t.Errorf("%d errors, want 1 that names the tag: %v", n, logs.All())
	}
}
