package scale

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

const prefix = messages.DefaultPrefix

func syncAlways(o *server.Options) { o.SyncAlways, o.NoLog = true, true }

// installation is a server with the counters in JetStream.
type installation struct {
	t     *testing.T
	net   *natstest.Server
	store store.Store
	js    jetstream.JetStream
	cfg   worker.Config                                                   // of all processes, as far as they are equal
	name  string                                                          // of the store, jetstream if ""
	open  func(ctx context.Context, conn *nats.Conn) (store.Store, error) // opens it; openStore if nil
}

func newInstallation(t *testing.T, cfg worker.Config) *installation {
	t.Helper()
	i := &installation{t: t, net: natstest.Start(t, syncAlways), cfg: cfg}
	i.js = natstest.JetStream(t, i.net.Connect(t))
	err := jetstreamstore.Create(t.Context(), i.js, prefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	if i.store, err = openStore(t.Context(), i.js.Conn()); err != nil {
		t.Fatal(err)
	}
	if err := worker.Provision(t.Context(), i.js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	return i
}

// openStore opens the installation's store for a process.
func (i *installation) openStore(ctx context.Context, conn *nats.Conn) (name string, s store.Store, err error) {
	if i.open == nil {
		s, err = openStore(ctx, conn)
		return "jetstream", s, err
	}
	s, err = i.open(ctx, conn)
	return i.name, s, err
}

func openStore(ctx context.Context, conn *nats.Conn) (store.Store, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	return jetstreamstore.Open(ctx, js, prefix)
}

// createTags makes tags in the store; loaders mirror them.
func (i *installation) createTags(n int, step int64) (names []string) {
	i.t.Helper()
	for k := range n {
		names = append(names, fmt.Sprintf("tag%d", k))
		if err := i.store.CreateTag(i.t.Context(), store.Tag{Name: names[k], Step: step, Next: 1}); err != nil {
			i.t.Fatal(err)
		}
	}
	return names
}

// process is a process's worth of a worker, with its connections.
type process struct {
	*worker.Process
	conns []*nats.Conn
}

// start starts a process. It may be called from any goroutine.
func (i *installation) start(role worker.Role) (p process, err error) {
	cfg := i.cfg
	cfg.Role, cfg.Version = role, "0.0.1"
	ctx := context.WithoutCancel(i.t.Context())
	for range 2 {
		conn, err := nats.Connect(i.net.URL(), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
		if err != nil {
			return p, err
		}
		p.conns = append(p.conns, conn)
	}
	cfg.Requests, cfg.Control = p.conns[0], p.conns[1]
	if role != worker.RoleWorker {
		if cfg.StoreName, cfg.Store, err = i.openStore(ctx, p.conns[1]); err != nil {
			return p, err
		}
	}
	p.Process, err = worker.Start(ctx, cfg)
	if err != nil {
		p.close()
	}
	return p, err
}

func (p process) close() {
	for _, conn := range p.conns {
		conn.Close()
	}
}

// stop stops it as SIGTERM does.
func (p process) stop() error {
	defer p.close()
	return p.Stop()
}

// mustStart starts a process that ends with the test.
func (i *installation) mustStart(role worker.Role) process {
	i.t.Helper()
	p, err := i.start(role)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		if err := p.stop(); err != nil {
			i.t.Error(err)
		}
	})
	return p
}
