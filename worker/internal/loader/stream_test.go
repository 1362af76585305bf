package loader

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker/loadmsg"
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

// TestTakesNoLoadBeforeItHasAsked: until others were asked what they know, a loader
// leaves all load events to other loaders, even its own process's. It may stand by
// meanwhile.
func TestTakesNoLoadBeforeItHasAsked(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn, own := server.Connect(t), server.Connect(t)
	s, asked := newFakeStore(), make(chan struct{})
	l := New(Config{
		Store: s, StoreName: "fake", Control: own, JS: natstest.JetStream(t, own), Prefix: "ids", Installation: "here", Replicas: 1,
		Reservations: 8, MaxStep: 1000, Timeout: natstest.Patience, Foreign: &loadmsg.Foreign{Installation: "here", Log: zap.NewNop()}, Log: zap.NewNop(),
		Ask: func(ctx context.Context) error {
			select {
			case <-asked:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	listens := func() bool {
		_, err := conn.Request(loadmsg.ReserveSubject("ids"), nil, l.cfg.Timeout/1000)
		return !errors.Is(err, nats.ErrNoResponders)
	}
	refuses := func() {
		t.Helper()
		if err := own.FlushTimeout(natstest.Patience); err != nil {
			t.Fatal(err)
		}
		if l.Load(load("own", 1, 0)) || listens() || l.Ready() == nil || s.calls() > 0 {
			t.Errorf("takes loads before it has asked others; ready: %v, %d calls", l.Ready(), s.calls())
		}
	}
	refuses()
	l.StandBy(true)
	l.StandBy(false)
	refuses()
	l.StandBy(true)
	close(asked)
	natstest.Eventually(t, "a loader that consumes", func() bool { return l.Ready() == nil })
	if listens() {
		t.Error("a loader that stands by takes plain loads")
	}
	l.StandBy(false)
	natstest.Eventually(t, "a loader for plain messages", listens)
	if !l.Load(load("own", 1, 0)) {
		t.Error("refuses the loads of its own process")
	}
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}

// TestStopsBeforeItHasAsked: a loader can stop while it asks.
func TestStopsBeforeItHasAsked(t *testing.T) {
	t.Parallel()
	own := natstest.Start(t).Connect(t)
	l := New(Config{
		Store: newFakeStore(), StoreName: "fake", Control: own, JS: natstest.JetStream(t, own), Prefix: "ids", Installation: "here", Replicas: 1,
		Reservations: 8, MaxStep: 1000, Timeout: natstest.Patience, Foreign: &loadmsg.Foreign{Installation: "here", Log: zap.NewNop()}, Log: zap.NewNop(),
		Ask: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	})
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}
