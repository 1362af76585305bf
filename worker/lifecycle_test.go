package worker_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestStopAnswersWhatIsParked: requests that wait for a segment when the worker is stopped
// still get their IDs, from the store's call under way.
func TestStopAnswersWhatIsParked(t *testing.T) {
	net := natstest.Start(t)
	s := &gate{Store: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Store: s, Wait: 5 * time.Second})
	createTags(t, net, s, 10, "order")
	c := newClient(t, net)
	open := s.close("order")
	var requests sync.WaitGroup
	awaitTags(t, w, 1)
	for range 50 {
		requests.Go(func() {
			if _, err := c.ask("order", 1, 10*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	natstest.Eventually(t, "parked requests", func() bool { return parkedRequests(t, c) == 50 })
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop() }()
	natstest.Eventually(t, "the worker to leave", func() bool {
		_, err := c.conn.Request("$SRV.PING."+worker.ServiceName, nil, time.Second)
		return err != nil
	})
	open()
	requests.Wait()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestStopWaitsForAnswers: a request counts as parked until its answer is sent, so that
// neither Stop nor closing the connections after it loses an answer.
func TestStopWaitsForAnswers(t *testing.T) {
	const requests = 2000
	net := natstest.Start(t)
	s := &gate{Store: newStore(t, net, 1)}
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	createTags(t, net, s, requests, "order")
	c := newClient(t, net)
	for range 10 {
		conns := [2]*nats.Conn{net.Connect(t), net.Connect(t)}
		w, err := worker.Start(t.Context(), worker.Config{
			Role: worker.RoleWorker, Requests: conns[0], Control: conns[1], Wait: 400 * time.Millisecond, Version: "0.0.1",
		})
		if err != nil {
			t.Fatal(err)
		}
		open := s.close("order")
		inbox := c.conn.NewRespInbox()
		replies, err := c.conn.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		for range requests {
			if err := c.conn.PublishRequest("ids.segment.order", inbox, nil); err != nil {
				t.Fatal(err)
			}
		}
		natstest.Eventually(t, "parked requests", func() bool { return parkedRequests(t, c) > 0 })
		stopped := make(chan error)
		go func() { stopped <- w.Stop() }()
		open()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		conns[0].Close()
		conns[1].Close()
		for i := range requests {
			if _, err := replies.NextMsg(2 * time.Second); err != nil {
				t.Fatalf("reply %d of %d: %v", i+1, requests, err)
			}
		}
		if err := replies.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}

// TestStopWaitsForTheStore: Stop does not return while a call of the store is under way,
// since the store may be closed next.
func TestStopWaitsForTheStore(t *testing.T) {
	net := natstest.Start(t)
	s := &gate{Store: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Store: s, Wait: 100 * time.Millisecond})
	createTags(t, net, s, 10, "order")
	open := s.close("order")
	c := newClient(t, net)
	natstest.Eventually(t, "a call of the store", func() bool {
		_, _ = c.ask("order", 1, 5*time.Second)
		return s.calls.Load() > 0
	})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-stopped:
		t.Error("stopped while the store was being called")
	case <-time.After(time.Second): // far longer than Stop takes otherwise
	}
	open()
	<-stopped
}

// TestStopWithoutServer: a worker whose server is gone stops nevertheless.
func TestStopWithoutServer(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	w, err := worker.Start(t.Context(), worker.Config{
		Requests: net.Connect(t), Control: net.Connect(t), Store: s, Wait: 100 * time.Millisecond, Version: "0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	createTags(t, net, s, 10, "order")
	c := newClient(t, net)
	natstest.Eventually(t, "an ID", func() bool {
		_, err := c.ask("order", 1, time.Second)
		return err == nil
	})
	net.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Stop() // says that the flush failed, which is true
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Stop hangs")
	}
}

// TestServerRestart: when the server is back, the process serves again by itself, and its
// loader consumes load events again.
func TestServerRestart(t *testing.T) {
	net := natstest.Start(t, func(o *server.Options) { o.SyncAlways = true })
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s})
	createTags(t, net, s, 5, "order")
	c := newClient(t, net)
	last := c.use("order", 20, c.must("order"))
	net.Restart()
	natstest.Eventually(t, "IDs", func() bool {
		ranges, err := c.ask("order", 1, time.Second)
		if err == nil && ranges[0].First <= last {
			t.Fatalf("%d after %d", ranges[0].First, last)
		}
		return err == nil
	})
	js := newJetStream(t, net)
	natstest.Eventually(t, "the loader to consume events again", func() bool {
		consumer, err := js.Consumer(t.Context(), loads.StreamName(messages.DefaultPrefix), "loader")
		return err == nil && consumer.CachedInfo().NumWaiting > 0
	})
	c.use("order", 2000, last)
}

// TestStartStopManyTimes leaves nothing behind; goleak checks goroutines at the end.
func TestStartStopManyTimes(t *testing.T) {
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	for _, role := range []worker.Role{worker.RoleAll, worker.RoleWorker, worker.RoleLoader} {
		for range 5 {
			conn := net.Connect(t)
			w, err := worker.Start(t.Context(), worker.Config{Role: role, Requests: conn, Control: conn, Store: s, Version: "0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Stop(); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, "subscriptions to end, but for JetStream's own", func() bool {
				return conn.NumSubscriptions() <= 2
			})
		}
	}
}

func TestStartFails(t *testing.T) {
	plain := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	for _, c := range []struct {
		why  string
		net  network
		cfg  worker.Config
		want string
	}{
		{"no store", net, worker.Config{}, "needs a store"},
		{"another store", net, worker.Config{Store: s, StoreName: "mysql leaf_alloc"}, "counts in another store"},
		{"bad prefix", net, worker.Config{Store: s, Prefix: "a.b"}, "bad prefix"},
		{"bad role", net, worker.Config{Store: s, Role: "boss"}, "allowed are all, worker, loader"},
		{"batch above step", net, worker.Config{Store: s, MaxBatch: 100, MaxStep: 10}, "largest batch 100"},
		{"no JetStream", plain, worker.Config{Store: s}, "no responders"},
	} {
		c.cfg.Requests, c.cfg.Control, c.cfg.Version = c.net.Connect(t), c.net.Connect(t), "0.0.1"
		w, err := worker.Start(t.Context(), c.cfg)
		if err == nil {
			_ = w.Stop()
			t.Errorf("%s: started", c.why)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.why, err, c.want)
		}
	}
}
