package worker_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
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
	admin, err := register.Decide(t.Context(), register.Config{JetStream: js, Prefix: messages.DefaultPrefix}, 1, 1, alone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RaiseAll(t.Context(), register.Raise{Target: target, Alone: alone}, func(store.Tag, int64) {}); err != nil {
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
			startWorker(t, behind{net, way}, worker.Config{Role: worker.RoleWorker})
			c := newClient(t, net)
			if id := c.must("order"); id != 1 {
				t.Fatalf("the first ID is %d", id)
			}
			cut.off(way)
			replies := make(chan int64, 1)
			go func() {
				for t.Context().Err() == nil {
					if ids, err := c.try("order", 1); err == nil { // one that was sent to a dead connection is lost
						replies <- ids[0].First
						return
					}
				}
			}()
			raiseAll(t, net, target, cut.alone)
			cut.on(way)
			if id := <-replies; id < target {
				t.Errorf("handed out %d, which was granted before the decision", id)
			}
		})
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
		newClient(t, net).must("order")
		floor := w.Report(0).BufferFloor
		js := newJetStream(t, net)
		agreed, err := agreement.Open(t.Context(), js, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		d := agreement.Decision{Floor: 1000, Installation: "another"}
		if own {
			d.Installation = w.Installation()
		}
		if err := agreed.Announce(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the worker reports the decision", func() bool { return w.Report(0).BufferFloor == 1000 })
		if tag := w.Report(1).Stats.Tags[0]; floor != 1 || tag.Left != 0 {
			t.Errorf("floor before: %d; held afterwards: %+v", floor, tag)
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
	conn, err := nats.Connect(b.way.URL(), append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}
