package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/worker"
)

// raiseAll raises all tags to a target, as an operator does.
func raiseAll(t *testing.T, net network, target int64, alone bool) {
	t.Helper()
	js := natstest.JetStream(t, net.Connect(t, nats.ReconnectBufSize(-1)))
	admin, err := register.OpenToRaise(t.Context(), register.Config{JetStream: js, Prefix: messages.DefaultPrefix}, 1, 1, alone)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := admin.Mark(t.Context(), target, register.MarkOptions{Over: true, Alone: alone})
	if err == nil {
		err = admin.Rewrite(t.Context(), register.Raise{Target: target}, func(register.Effect) {})
		err = mark.Finish(t.Context(), err, register.Decision{Time: time.Now()})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWorkerThatMissedADecision: a worker that was cut off while all tags were
// raised hands out nothing from before when it is back, not even for requests
// that were under way to it. It was not disconnected, or only for a moment.
func TestWorkerThatMissedADecision(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]struct {
		off   func(*proxy.Proxy)
		on    func(*proxy.Proxy)
		alone bool // the raise takes a moment
	}{
		"held":         {(*proxy.Proxy).Hold, (*proxy.Proxy).Release, false},
		"disconnected": {func(p *proxy.Proxy) { p.Refuse(); p.Cut() }, (*proxy.Proxy).Accept, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const target = 1_000_000
			net := natstest.Start(t)
			s := newStore(t, net, 1)
			createTags(t, s, 1000, "order")
			startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
			way := proxy.Start(t, net.URL())
			w, err := start(t.Context(), configure(t, behind{net, way}, worker.Config{Role: worker.RoleWorker}), worker.NewLearner)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { stop(t, w) })
			c := newClient(t, net)
			if id := c.must("order"); id != 1 {
				t.Fatalf("the first ID is %d", id)
			}
			cut.off(way)
			replies := c.keepAsking("order")
			raiseAll(t, net, target, cut.alone)
			cut.on(way)
			if id := firstID(t, replies); id < target {
				t.Errorf("handed out %d, which was granted before the decision", id)
			}
		})
	}
}

// keepAsking sends requests for an ID until the test ends, whether earlier ones
// were answered or lost.
func (c client) keepAsking(tag string) (replies *nats.Subscription) {
	c.t.Helper()
	replies, err := c.conn.SubscribeSync(c.conn.NewInbox())
	if err != nil {
		c.t.Fatal(err)
	}
	var asking sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	c.t.Cleanup(func() { stop(); asking.Wait() })
	asking.Go(func() {
		for ; ctx.Err() == nil; pause.For(ctx, 5*time.Millisecond) {
			_ = c.conn.PublishRequest(messages.DefaultPrefix.Segment(tag), replies.Subject, messages.EncodeCount(1))
		}
	})
	return replies
}

// firstID waits for a reply with an ID.
func firstID(t *testing.T, replies *nats.Subscription) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	for {
		msg, err := replies.NextMsgWithContext(ctx)
		if err != nil && !errors.Is(err, nats.ErrNoResponders) {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		if ids, err := messages.DecodeReply(msg, 1); err == nil {
			return ids[0].First
		}
	}
}

// TestDecisionWithoutTraffic: a worker that needs no segment learns of a decision
// too, and reports it. So does one whose installation was replaced.
func TestDecisionWithoutTraffic(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		net := worker.NewAccount(t)
		s := newStore(t, net, 1)
		createTags(t, s, 1000, "order")
		w := startWorker(t, net, worker.Config{Store: s})
		c := newClient(t, net)
		c.must("order")
		floor := w.Report(0).BufferFloor
		js := newJetStream(t, net)
		agreed, err := agreement.Open(t.Context(), js, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		d := agreement.Announcement{Floor: 1000, Installation: "another"}
		if own {
			d.Installation = w.Installation()
		}
		if err := agreed.Announce(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the worker reports the decision", func() bool { return w.Report(0).BufferFloor == 1000 })
		if floor != 1 {
			t.Errorf("the floor before: %d", floor)
		}
		// The loader has adopted no decision, so after one about its own installation
		// its grants are burnt. After one about another, the buffer is filled again.
		if left := w.Report(1).Stats.Tags[0].Left; own && left != 0 {
			t.Errorf("%d IDs are held", left)
		}
		if !own {
			if id := c.must("order"); id < 1001 {
				t.Errorf("handed out %d, which was granted before", id)
			}
		}
	}
}

// behind connects through a proxy.
type behind struct {
	network
	way *proxy.Proxy
}

// Connect is part of network.
func (b behind) Connect(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(b.way.URL(), append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.Timeout(natstest.Patience)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}
