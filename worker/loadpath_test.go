package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// use takes n IDs one by one and fails on an ID that does not lie above the last.
func (c client) use(tag string, n int, last int64) int64 {
	c.t.Helper()
	for range n {
		ranges, err := c.patiently(tag, 1)
		if err != nil {
			c.t.Fatal(err)
		}
		if ranges[0].First <= last {
			c.t.Fatalf("%d after %d", ranges[0].First, last)
		}
		last = ranges[0].First
	}
	return last
}

// TestRolesApart: a worker without a store lives on the grants of a loader.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker, MaxStep: 5, MaxBatch: 5})
	createTags(t, s, 5, "order")
	c := newClient(t, net)
	c.use("order", 1000, c.must("order"))
}

// TestLoadIsServedOnce: a load that comes again while it is being served, as after
// a redelivery, costs no second range.
func TestLoadIsServedOnce(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := &gate{Store: newStore(t, net, 1)}
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	createTags(t, s, 10, "order")
	conn := net.Connect(t)
	grants, err := conn.SubscribeSync(loads.GrantSubject(messages.DefaultPrefix, "me"))
	if err != nil {
		t.Fatal(err)
	}
	open := s.close("order")
	defer open()
	event := loads.Event{Instance: "me", Tag: "order", Step: 10, Seq: 1}
	for _, seq := range []uint64{1, 1, 2, 1, 2} {
		event.Seq = seq
		if err := conn.Publish(loads.ReserveSubject(messages.DefaultPrefix), event.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, "the first to be served", func() bool { return s.calls.Load() == 1 })
	open()
	for _, want := range []uint64{1, 2} {
		msg, err := grants.NextMsg(natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if grant, err := loads.DecodeGrant(msg.Data); err != nil || grant.Seq != want {
			t.Errorf("grant %+v, %v; want one for load %d", grant, err, want)
		}
	}
	tags, err := s.Tags(t.Context())
	if err != nil || len(tags) != 1 || tags[0].Next != 21 {
		t.Errorf("store is at %v, %v; want 20 IDs reserved", tags, err)
	}
}

// TestLoaderWithSmallerMaxStep: during a change of --max-step, loaders and workers have
// different ones. A loader gives what it may, and the worker asks on.
func TestLoaderWithSmallerMaxStep(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s, MaxStep: 10, MaxBatch: 10})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	createTags(t, s, 10, "order")
	c := newClient(t, net)
	c.use("order", 200, c.must("order"))
	if _, err := c.patiently("order", 1000); err != nil {
		t.Errorf("a batch of a hundred segments: %v", err)
	}
}

// TestWorkerWithSmallerMaxStep: a worker uses as much of a grant as it may, where the loader
// has decided how much that is.
func TestWorkerWithSmallerMaxStep(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker, MaxStep: 100, MaxBatch: 100})
	createTags(t, s, 1000, "order")
	c := newClient(t, net)
	c.use("order", 300, c.must("order"))
}

// TestStrictBatchAboveMaxStep: a batch that no grant can hold is refused, and does not have
// one load follow the other.
func TestStrictBatchAboveMaxStep(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s, MaxStep: 1000, MaxBatch: 10})
	startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	createStrict(t, s, 10, "order")
	c := newClient(t, net)
	c.must("order")
	before := s.Figures().Granted
	if ranges, err := c.ask("order", 5000); !errors.Is(err, messages.ErrUnavailable) {
		t.Errorf("got %v, %v", ranges, err)
	}
	if n := s.Figures().Granted - before; n > 10 {
		t.Errorf("%d grants for one request", n)
	}
}

// loadPaths are the ways of a load that does not go through the stream.
var loadPaths = []struct {
	name  string
	roles []worker.Role
}{
	{"own loader", []worker.Role{worker.RoleAll}},
	{"any loader", []worker.Role{worker.RoleLoader, worker.RoleWorker}},
}

// TestWithoutLoadStream: when the load stream is gone, segments are loaded directly,
// and over the stream again when it is back.
func TestWithoutLoadStream(t *testing.T) {
	t.Parallel()
	for _, c := range loadPaths {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			net := worker.NewAccount(t)
			s := newStore(t, net, 1)
			for _, role := range c.roles {
				startWorker(t, net, worker.Config{Role: role, Store: s, MaxStep: 5, MaxBatch: 5})
			}
			createTags(t, s, 5, "order")
			c := newClient(t, net)
			last := c.must("order")

			js := newJetStream(t, net)
			name := loads.StreamName(messages.DefaultPrefix)
			if err := js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			last = c.use("order", 300, last)
			natstest.Eventually(t, "the stream to be created again, and used", func() bool {
				last = c.use("order", 50, last) // drives loads
				stream, err := js.Stream(t.Context(), name)
				return err == nil && stream.CachedInfo().State.LastSeq > 0
			})
			c.use("order", 100, last)
		})
	}
}

// TestFullLoadStream: while the load stream has no room for events, segments are loaded directly,
// in time, and that is logged.
func TestFullLoadStream(t *testing.T) {
	t.Parallel()
	for _, c := range loadPaths {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			net := worker.NewAccount(t)
			s := newStore(t, net, 1)
			core, lines := observer.New(zap.InfoLevel)
			for _, role := range c.roles {
				w := startWorker(t, net, worker.Config{Role: role, Store: s, Log: zap.New(core)})
				natstest.Eventually(t, "events are consumed", func() bool { return w.Ready() == nil })
			}
			js := newJetStream(t, net)
			stream, err := js.Stream(t.Context(), loads.StreamName(messages.DefaultPrefix))
			if err != nil {
				t.Fatal(err)
			}
			roomy := stream.CachedInfo().Config
			full := roomy
			full.MaxBytes = 100
			if _, err := js.UpdateStream(t.Context(), full); err != nil {
				t.Fatal(err)
			}
			createTags(t, s, 1000, "order")
			c := newClient(t, net)
			last := c.must("order")
			ranges, err := c.patiently("order", 200) // more is wanted, long before nothing is left
			if err != nil {
				t.Fatal(err)
			}
			last = max(last, ranges[len(ranges)-1].Last)
			natstest.Eventually(t, "a second segment", func() bool { return leftOf(t, c, "order") > 1000 })
			if lines.FilterMessage("load stream is away, loading directly").Len() == 0 {
				t.Error("nothing was logged")
			}

			if _, err := js.UpdateStream(t.Context(), roomy); err != nil {
				t.Fatal(err)
			}
			natstest.Eventually(t, "events in the stream again", func() bool {
				last = c.use("order", 50, last)
				return lines.FilterMessage("load stream is back").Len() > 0
			})
		})
	}
}

// TestLoaderThatDies: an event that a dead loader took along does not leave its tag
// without IDs until the stream gives it to another.
func TestLoaderThatDies(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	js := newJetStream(t, net)
	if err := worker.Provision(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	startWorker(t, net, worker.Config{Role: worker.RoleWorker})
	loader := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	createTags(t, s, 10, "order")

	c := newClient(t, net)
	c.must("order")
	stop(t, loader)
	answer := make(chan error, 1)
	go func() {
		_, err := c.patiently("order", 100)
		answer <- err
	}()
	takeOneEvent(t, js) // and never ack it
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// takeOneEvent does what a loader does that is killed before it reserves.
func takeOneEvent(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), loads.StreamName(messages.DefaultPrefix), jetstream.ConsumerConfig{
		Durable: "loader", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
		MaxDeliver: -1, MaxAckPending: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(natstest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loads.DecodeEvent(msg.Data(), 1<<40); err != nil {
		t.Fatal(err)
	}
}
