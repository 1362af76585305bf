package worker_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/loadmsg"
)

// TestStopAnswersWhatIsParked: requests that wait for a segment when the worker
// stops still get their IDs, from the store call in flight.
func TestStopAnswersWhatIsParked(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := &gate{Register: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Store: s, Wait: time.Minute})
	createTags(t, s.Register, 10, "order")
	c := newClient(t, net)
	open := s.close("order")
	defer open()
	var requests sync.WaitGroup
	for range 50 {
		requests.Go(func() {
			if _, err := c.ask("order", 1); err != nil {
				t.Error(err)
			}
		})
	}
	natstest.Eventually(t, "parked requests", func() bool { return parkedRequests(t, c) == 50 })
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop() }()
	natstest.Eventually(t, "the worker to leave", func() bool {
		_, err := c.conn.Request("$SRV.PING."+worker.ServiceName, nil, natstest.Patience)
		return errors.Is(err, nats.ErrNoResponders)
	})
	open()
	requests.Wait()
	if err := <-stopped; err != nil && !isPassing(err) {
		t.Error(err)
	}
}

// TestStopWaitsForAnswers: a request counts as parked until its answer is sent,
// so that neither Stop nor closing the connections afterwards loses an answer.
func TestStopWaitsForAnswers(t *testing.T) {
	t.Parallel()
	const requests = 2000
	net := worker.NewAccount(t)
	s := &gate{Register: newStore(t, net, 1)}
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	createTags(t, s.Register, requests, "order")
	c := newClient(t, net)
	for range 2 {
		cfg := configure(t, net, worker.Config{Role: worker.RoleWorker, Wait: 400 * time.Millisecond})
		w, err := startProcess(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		open := s.close("order")
		defer open()
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
		if err := c.conn.Flush(); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "a request", func() bool {
			answers, _, _ := replies.Pending()
			return answers > 0 || parkedRequests(t, c) > 0
		})
		stopped := make(chan error, 1)
		go func() { stopped <- w.Stop() }()
		open()
		if err := <-stopped; err != nil && !isPassing(err) {
			t.Error(err)
		}
		cfg.Requests.Close()
		cfg.Control.Close()
		for i := range requests {
			if _, err := replies.NextMsg(natstest.Patience); err != nil {
				t.Fatalf("reply %d of %d: %v", i+1, requests, err)
			}
		}
		if err := replies.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}

// TestStopWithoutServer: a worker whose server is gone stops anyway.
func TestStopWithoutServer(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	w, err := startProcess(t.Context(), configure(t, net, worker.Config{Store: s, Wait: 100 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	createTags(t, s, 10, "order")
	newClient(t, net).must("order")
	net.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It returns the error of the flush, which is expected.
		_ = w.Stop()
	}()
	select {
	case <-done:
	case <-time.After(natstest.Patience):
		t.Fatal("Stop hangs")
	}
}

// TestServerRestart: when the server is back, the process serves again, and its
// loader consumes load events again.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t, func(o *server.Options) { o.SyncAlways = true })
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s})
	createTags(t, s, 5, "order")
	c := newClient(t, net)
	last := c.use("order", 20, c.must("order"))
	net.Restart()
	natstest.Eventually(t, "IDs", func() bool {
		ranges, err := c.try("order", 1)
		if err == nil && ranges[0].First <= last {
			t.Fatalf("%d after %d", ranges[0].First, last)
		}
		return err == nil
	})
	last = c.use("order", 20, last)
	js := newJetStream(t, net)
	natstest.Eventually(t, "the loader to consume events again", func() bool {
		consumer, err := js.Consumer(t.Context(), loadmsg.StreamName(messages.DefaultPrefix), "loader")
		return err == nil && consumer.CachedInfo().NumWaiting > 0
	})
	c.use("order", 200, last)
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	plain := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Store: s, StoreName: "jetstream"})
	for _, c := range []struct {
		why  string
		net  network
		cfg  worker.Config
		want string
	}{
		{"no store", net, worker.Config{}, "needs a store"},
		{"another store", net, worker.Config{Store: s, StoreName: "mysql leaf_alloc"}, "uses another store"},
		{"bad prefix", net, worker.Config{Store: s, Prefix: "a.b"}, "bad prefix"},
		{"bad role", net, worker.Config{Store: s, Role: "boss"}, "allowed are all, worker, loader"},
		{"batch above step", net, worker.Config{Store: s, MaxBatch: 100, MaxStep: 10}, "largest batch 100"},
		{"another layout", net, worker.Config{Role: worker.RoleWorker, Lease: lease.Config{Layout: narrow(t)}}, narrow(t).String()},
		{"no JetStream", plain, worker.Config{Store: s}, "no responders"},
	} {
		c.cfg.Requests, c.cfg.Control, c.cfg.Version = c.net.Connect(t), c.net.Connect(t), "0.0.1"
		w, err := startProcess(t.Context(), c.cfg)
		if err == nil {
			_ = w.Stop()
			t.Errorf("%s: started", c.why)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.why, err, c.want)
		}
	}
}
