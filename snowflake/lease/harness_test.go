package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const prefix = messages.DefaultPrefix

// testTTL is the TTL of leases on a real server. A busy host may lose a lease,
// so tests that depend on expiry run in virtual time.
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
	js := natstest.JetStream(t, net.Connect(t))
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
	var m *Manager
	natstest.Eventually(t, "a Manager", func() bool {
		var err error
		if m, err = Open(t.Context(), cfg); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	return runManager(t, m)
}

// runManager lets a Manager run until the test ends or stop is called.
func runManager(t testing.TB, m *Manager) *runner {
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
	t.Cleanup(r.end)
	return r
}

// end stops it, and returns when it has ended.
func (r *runner) end() {
	r.stop()
	<-r.done
}

// state is the latest reported state.
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
	natstest.Eventually(t, want.Error(), func() bool { return r.reported(want) })
}

func (r *runner) reported(want error) bool {
	return slices.ContainsFunc(r.all(), func(s State) bool { return errors.Is(s.Err, want) })
}

func (r *runner) held() bool { return r.state().Generator != nil }

// waitHeld returns the state in which there is a worker ID.
func (r *runner) waitHeld(t testing.TB) (s State) {
	t.Helper()
	natstest.Eventually(t, "a worker ID", func() bool {
		s = r.state()
		return s.Generator != nil
	})
	return s
}

// waitID returns an ID. On a host that is slow, the time of a worker ID may be
// over for a moment, or the worker ID lost.
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

// offClock is a system clock that is off.
type offClock struct{ off time.Duration }

func (c *offClock) now() int64 { return time.Now().Add(c.off).UnixNano() }

func mustNext(t testing.TB, g *snowflake.Generator) snowflake.ID {
	t.Helper()
	id, err := g.Next()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
