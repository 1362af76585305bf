package worker_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zaptest"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

func TestMain(m *testing.M) {
	natstest.Main(suite{m})
}

// suite is all tests, with the teardown of their shared resources.
type suite struct{ *testing.M }

func (s suite) Run() int {
	defer worker.StopSharedServer()
	return s.M.Run()
}

// network supplies a test's connections: an account, a server of its own, or a
// cluster.
type network interface {
	Connect(t testing.TB, opts ...nats.Option) *nats.Conn
}

// newStore returns a handle on the installation's register, made if missing.
func newStore(t testing.TB, net network, replicas int) *register.Register {
	t.Helper()
	js := natstest.JetStream(t, net.Connect(t, nats.ReconnectBufSize(-1)))
	if err := register.Create(t.Context(), js, messages.DefaultPrefix, replicas); err != nil {
		t.Fatal(err)
	}
	s, err := register.Open(t.Context(), register.Config{JetStream: js, Prefix: messages.DefaultPrefix})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newJetStream is for the test's own use, which waits for answers.
func newJetStream(t testing.TB, net network) jetstream.JetStream {
	t.Helper()
	return natstest.JetStream(t, net.Connect(t))
}

// patientWait is the default for Config.Wait in tests: long enough for any
// machine.
const patientWait = 20 * time.Second

// configure completes the configuration of a worker.
func configure(t testing.TB, net network, cfg worker.Config) worker.Config {
	t.Helper()
	cfg.Requests, cfg.Control = net.Connect(t), net.Connect(t)
	cfg.Version = "0.0.1"
	cfg.Wait = cmp.Or(cfg.Wait, patientWait)
	if cfg.Log == nil {
		cfg.Log = zaptest.NewLogger(t)
	}
	return cfg
}

// startProcess makes a process and starts it.
func startProcess(ctx context.Context, cfg worker.Config) (*worker.Process, error) {
	return start(ctx, cfg, worker.NewPatient)
}

// startRefused returns why a process does not start. On a busy machine it may
// miss the answers of the others, and start; then it is stopped and starts again.
func startRefused(t *testing.T, cfg worker.Config) (err error) {
	t.Helper()
	natstest.Eventually(t, "a start is refused", func() bool {
		var w *worker.Process
		if w, err = startProcess(t.Context(), cfg); err == nil {
			stop(t, w)
		}
		return err != nil
	})
	return err
}

// start makes a process with a function, and starts it. Calls of JetStream take
// as long as tests wait: without a deadline they would fail after 5 seconds.
func start(ctx context.Context, cfg worker.Config, newProcess func(context.Context, worker.Config) (*worker.Process, error)) (*worker.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, natstest.Patience)
	defer cancel()
	made, err := worker.Provision(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cfg.Made = cfg.Made || made
	p, err := newProcess(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// startWorker starts a worker that stops with the test, unless it was stopped
// before.
func startWorker(t testing.TB, net network, cfg worker.Config) *worker.Process {
	t.Helper()
	w, err := startProcess(t.Context(), configure(t, net, cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop(t, w)
	})
	return w
}

// stop stops a worker. It ignores errors of a slow NATS server.
func stop(t testing.TB, w *worker.Process) {
	t.Helper()
	switch err := w.Stop(); {
	case isPassing(err):
		t.Logf("stop: %v", err)
	case err != nil:
		t.Error(err)
	}
}

// createTags creates trend tags.
func createTags(t testing.TB, s *register.Register, step int64, names ...string) {
	t.Helper()
	createOrdered(t, s, store.Trend, step, names...)
}

// createStrict creates strict tags.
func createStrict(t testing.TB, s *register.Register, step int64, names ...string) {
	t.Helper()
	createOrdered(t, s, store.Strict, step, names...)
}

func createOrdered(t testing.TB, s *register.Register, order store.Order, step int64, names ...string) {
	t.Helper()
	for _, name := range names {
		var err error
		// A running loader may still be asking others.
		natstest.Eventually(t, "a tag is created", func() bool {
			err = s.CreateTag(t.Context(), store.Tag{Name: name, Step: step, Next: 1, Order: order})
			return !errors.Is(err, store.ErrRegressed)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// client is a caller of the test. It does not retry: the Go client would, and
// hide the fate of a request.
type client struct {
	t    testing.TB
	conn *nats.Conn
}

func newClient(t testing.TB, net network) client { return client{t, net.Connect(t)} }

// NextN requests n IDs of a tag.
func (c client) NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
	return c.request(ctx, messages.DefaultPrefix.Segment(tag), n)
}

// SnowflakeN requests n snowflake IDs.
func (c client) SnowflakeN(ctx context.Context, n int64) ([]messages.Range, error) {
	return c.request(ctx, messages.DefaultPrefix.Snowflake(), n)
}

func (c client) request(ctx context.Context, subject string, n int64) ([]messages.Range, error) {
	reply, err := c.conn.RequestWithContext(ctx, subject, messages.EncodeCount(n))
	if err != nil {
		return nil, err
	}
	return messages.DecodeReply(reply, n)
}

// ask returns n IDs or the error.
func (c client) ask(tag string, n int64) ([]messages.Range, error) {
	ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
	defer cancel()
	return c.NextN(ctx, tag, n)
}

// isPassing is [worker.IsPassing].
func isPassing(err error) bool { return worker.IsPassing(err) }

// try requests n IDs where the answer may be lost.
func (c client) try(tag string, n int64) ([]messages.Range, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.NextN(ctx, tag, n)
}

// withRetry requests n IDs until it gets them, or a permanent error.
func (c client) withRetry(tag string, n int64) (ranges []messages.Range, err error) {
	for deadline := time.Now().Add(natstest.Patience); ; time.Sleep(time.Millisecond) {
		ranges, err = c.ask(tag, n)
		if err == nil || !isPassing(err) || time.Now().After(deadline) {
			return ranges, err
		}
	}
}

// must returns an ID of an existing tag.
func (c client) must(tag string) (id int64) {
	c.t.Helper()
	ranges, err := c.withRetry(tag, 1)
	if err != nil {
		c.t.Fatalf("one ID of %s: %v", tag, err)
	}
	return ranges[0].First
}

// gate is a store that can hang for some tags, and counts its calls.
type gate struct {
	*register.Register
	calls atomic.Int64

	mu   sync.Mutex
	shut map[string]chan struct{}
}

// close makes Reserve hang for the tag until open is called. As with a database
// that hangs, a running call succeeds later, unless its context ends.
func (g *gate) close(tag string) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(map[string]chan struct{})
	}
	gate := make(chan struct{})
	g.shut[tag] = gate
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.shut, tag)
		close(gate)
	})
}

func (g *gate) Reserve(ctx context.Context, tag string, wants []store.Want) (store.Reservation, error) {
	g.calls.Add(1)
	g.mu.Lock()
	gate := g.shut[tag]
	g.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return store.Reservation{}, ctx.Err()
		}
	}
	return g.Register.Reserve(ctx, tag, wants)
}
