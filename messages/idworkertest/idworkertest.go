// Package idworkertest runs idworker and its NATS server in a test's process,
// for tests of applications that request IDs:
//
//	func TestOrders(t *testing.T) {
//		ids := idworkertest.Start(t, "order")
//		shop := NewShop(ids.Client())
//		// …
//	}
//
// It is the real worker with the embedded default store, so requests, errors
// and order are those of production. Only the disk differs: writes are not
// synced. A start takes less than a second on most machines.
package idworkertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

const (
	// startWithin bounds a start, and calls of the NATS server, which would
	// otherwise have a few seconds. It is long, because test machines are small
	// and shared.
	startWithin = 2 * time.Minute

	// readyEvery is short compared with a start.
	readyEvery = 5 * time.Millisecond
)

// Idworker is a process that serves until its test ends.
type Idworker struct {
	t        testing.TB
	nats     *server.Server
	register *register.Register
}

// Start starts an idworker on a port of 127.0.0.1, and creates tags whose first
// ID is 1. It returns when tag and snowflake IDs can be requested, and fails the
// test if that is impossible. Everything ends with the test.
func Start(t testing.TB, tags ...string) *Idworker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	s := &Idworker{t: t}
	if err := s.start(ctx); err != nil {
		t.Fatalf("idworkertest: %v", err)
	}
	for _, tag := range tags {
		s.CreateTag(store.Tag{Name: tag, Step: 1000, Next: 1})
	}
	return s
}

// URL is the address of the NATS server.
func (s *Idworker) URL() string { return s.nats.ClientURL() }

// Client returns a client with a connection of its own, which is closed when
// the test ends.
func (s *Idworker) Client() *messages.Client {
	s.t.Helper()
	conn, err := s.connect()
	if err != nil {
		s.t.Fatalf("idworkertest: %v", err)
	}
	return messages.NewClient(conn, messages.DefaultPrefix)
}

// CreateTag creates a tag with an order or first ID of its own.
func (s *Idworker) CreateTag(tag store.Tag) {
	s.t.Helper()
	if err := s.register.CreateTag(s.t.Context(), tag); err != nil {
		s.t.Fatalf("idworkertest: %v", err)
	}
}

// connect returns a connection that is closed when the test ends.
func (s *Idworker) connect(opts ...nats.Option) (*nats.Conn, error) {
	conn, err := nats.Connect(s.URL(), append(opts, nats.MaxReconnects(-1), nats.Timeout(startWithin))...)
	if err == nil {
		s.t.Cleanup(conn.Close)
	}
	return conn, err
}

func (s *Idworker) start(ctx context.Context) (err error) {
	s.nats, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: s.t.TempDir(),
	})
	if err != nil {
		return err
	}
	s.t.Cleanup(func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	})
	go s.nats.Start()
	if !s.nats.ReadyForConnections(startWithin) {
		return errors.New("the NATS server does not start")
	}
	cfg := worker.Config{Version: "0.0.0"}
	if cfg.Requests, err = s.connect(); err != nil {
		return err
	}
	if cfg.Control, err = s.connect(nats.ReconnectBufSize(-1)); err != nil {
		return err
	}
	if cfg.JetStream, err = jetstream.New(cfg.Control, jetstream.WithDefaultTimeout(startWithin)); err != nil {
		return err
	}
	return s.serve(ctx, cfg)
}

// serve starts the process, and waits until it serves.
func (s *Idworker) serve(ctx context.Context, cfg worker.Config) (err error) {
	if cfg.Made, err = worker.Provision(ctx, cfg); err != nil {
		return err
	}
	s.register, err = register.Open(ctx, register.Config{JetStream: cfg.JetStream, Prefix: messages.DefaultPrefix})
	if err != nil {
		return err
	}
	s.t.Cleanup(func() { _ = s.register.Close() })
	cfg.Store, cfg.StoreName = s.register, "jetstream"
	process, err := worker.New(ctx, cfg)
	if err != nil {
		return err
	}
	if err := process.Start(ctx); err != nil {
		return err
	}
	s.t.Cleanup(func() { _ = process.Stop() })
	return await(ctx, process)
}

// await waits until a process serves tag and snowflake IDs: some of its parts
// begin after Start has returned.
func await(ctx context.Context, process *worker.Process) error {
	for {
		err := process.Ready()
		if none := process.Report(0).Stats.NoWorker; err == nil && none != "" {
			err = fmt.Errorf("no worker ID: %s", none)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause.For(ctx, readyEvery)
	}
}
