package loader

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loadmsg"
	"github.com/idworker/idworker/testing/natstest"
)

// TestLoadEvents: events come through the stream, which the loader creates, and
// as plain messages, which it leaves to another installation while it stands
// by. Events of another installation are removed.
func TestLoadEvents(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn, own := server.Connect(t), server.Connect(t)
	js := natstest.JetStream(t, conn)
	s := newFakeStore()
	l := New(Config{
		Store: s, StoreName: "fake", Control: own, JS: natstest.JetStream(t, own), Prefix: "ids", Installation: "here", Replicas: 1,
		Reservations: 8, MaxStep: 1000, Timeout: natstest.Patience, Foreign: &loadmsg.Foreign{Installation: "here", Log: zap.NewNop()}, Log: zap.NewNop(),
	})
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "a loader that consumes", func() bool { return l.Ready() == nil })
	grants := make(chan *nats.Msg, 100)
	if _, err := conn.ChanSubscribe(loadmsg.GrantSubject("ids", "a"), grants); err != nil {
		t.Fatal(err)
	}
	granted := func(tag string) {
		t.Helper()
		natstest.Eventually(t, "a grant", func() bool { return len(grants) > 0 })
		if grant, err := loadmsg.DecodeGrant((<-grants).Data); err != nil || grant.Tag != tag || grant.End <= grant.First || grant.Installation != "here" {
			t.Errorf("%+v, %v; want a grant for %s", grant, err, tag)
		}
	}
	throughStream := func(event loadmsg.Event) {
		t.Helper()
		if _, err := js.Publish(t.Context(), loadmsg.Subject("ids", event.Instance, event.Tag), event.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	hasResponder := func() bool {
		_, err := conn.Request(loadmsg.ReserveSubject("ids"), nil, l.cfg.Timeout/1000)
		return !errors.Is(err, nats.ErrNoResponders)
	}

	throughStream(load("stream", 0, 0))
	granted("stream")
	if err := conn.Publish(loadmsg.ReserveSubject("ids"), load("plain", 1, 0).Encode()); err != nil {
		t.Fatal(err)
	}
	granted("plain")
	l.Load(load("own", 1, 0))
	granted("own")

	l.StandBy(true)
	natstest.Eventually(t, "no loader for plain messages", func() bool { return !hasResponder() })
	foreign := load("foreign", 0, 0)
	foreign.Installation = "elsewhere"
	throughStream(foreign)
	throughStream(load("aside", 0, 0))
	granted("aside")
	l.StandBy(false)
	natstest.Eventually(t, "a loader for plain messages", hasResponder)

	natstest.Eventually(t, "an empty stream", func() bool {
		stream, err := js.Stream(t.Context(), loadmsg.StreamName("ids"))
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
	natstest.Eventually(t, "no loader for plain messages", func() bool { return !hasResponder() })
	if l.Ready() == nil || s.callsFor("foreign") > 0 {
		t.Errorf("a loader that stopped is ready, or an event of another installation was served")
	}
}
