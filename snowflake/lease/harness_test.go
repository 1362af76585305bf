package lease

import (
	"context"
	"errors"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
)

// TestMain lets more tests run at once than there are cores, because those on real
// servers mostly wait for leases to expire. -parallel on the command line takes
// precedence.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const prefix = messages.DefaultPrefix

// testTTL leaves room for hosts that are busy: what is lost there is no fault.
const testTTL = 3 * time.Second

// layout64 has 64 worker IDs.
var layout64 = func() snowflake.Layout {
	spec := snowflake.Default().Spec()
	spec.Time, spec.Worker = 45, 6
	l, err := snowflake.NewLayout(spec)
	if err != nil {
		panic(err)
	}
	return l
}()

type connector interface {
	Connect(t testing.TB, opts ...nats.Option) *nats.Conn
}

func newJS(t testing.TB, net connector) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(net.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// provision creates the buckets and returns a context for JetStream.
func provision(t testing.TB, net connector) jetstream.JetStream {
	t.Helper()
	js := newJS(t, net)
	if err := Create(t.Context(), js, prefix, testTTL, 1); err != nil {
		t.Fatal(err)
	}
	return js
}

func config(js jetstream.JetStream) Config {
	return Config{JS: js, Layout: layout64, TTL: testTTL}
}

// runner is a Manager that runs.
type runner struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // after done

	mu     sync.Mutex
	states []State
}

// run opens a Manager and lets it run until the test ends or stop is called.
func run(t testing.TB, cfg Config) *runner {
	t.Helper()
	m, err := Open(t.Context(), cfg)
	for began := time.Now(); errors.Is(err, context.DeadlineExceeded) && time.Since(began) < natstest.Patience; { // the server has much to do
		m, err = Open(t.Context(), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &runner{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = m.Run(ctx, func(s State) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.states = append(r.states, s)
		})
	}()
	t.Cleanup(func() {
		stop()
		<-r.done
	})
	return r
}

// state is the last one reported.
func (r *runner) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.states) == 0 {
		return State{}
	}
	return r.states[len(r.states)-1]
}

// all returns every state reported so far.
func (r *runner) all() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.states)
}

// waitFor waits until a state with that error was reported.
func (r *runner) waitFor(t testing.TB, want error) {
	t.Helper()
	natstest.Eventually(t, want.Error(), func() bool {
		return slices.ContainsFunc(r.all(), func(s State) bool { return errors.Is(s.Err, want) })
	})
}

func (r *runner) held() bool { return r.state().Generator != nil }

// waitHeld returns the state in which there is a worker ID.
func (r *runner) waitHeld(t testing.TB) State {
	t.Helper()
	natstest.Eventually(t, "a worker ID", r.held)
	return r.state()
}

// waitID returns an ID. On a host that is slow, the time of a worker ID may be over
// for a moment, or the worker ID lost.
func (r *runner) waitID(t testing.TB) (id snowflake.ID) {
	t.Helper()
	natstest.Eventually(t, "an ID", func() bool {
		g := r.state().Generator
		if g == nil {
			return false
		}
		var err error
		id, err = g.Next()
		return err == nil
	})
	return id
}

// offClock is a system clock that is moved by hand.
type offClock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *offClock) set(off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
}

func (c *offClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off).UnixNano()
}

func mustNext(t testing.TB, g *snowflake.Generator) snowflake.ID {
	t.Helper()
	id, err := g.Next()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
