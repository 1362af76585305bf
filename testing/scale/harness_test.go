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
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}

const prefix = messages.DefaultPrefix

func syncAlways(o *server.Options) { o.SyncAlways, o.NoLog = true, true }

// installation is a server with the register.
type installation struct {
	t     *testing.T
	net   *natstest.Node
	store store.Store
	js    jetstream.JetStream
	cfg   worker.Config // common to all processes
	name  string        // of the store
	table store.Table   // behind the register, if there is one
}

func newInstallation(t *testing.T, cfg worker.Config) *installation {
	t.Helper()
	i := &installation{t: t, net: natstest.Start(t, syncAlways), cfg: cfg, name: "jetstream"}
	i.provision()
	return i
}

// provision creates the buckets, and opens the store for the test itself.
func (i *installation) provision() {
	i.t.Helper()
	i.js = natstest.JetStream(i.t, i.net.Connect(i.t, nats.ReconnectBufSize(-1)))
	err := register.Create(i.t.Context(), i.js, prefix, 1)
	if err == nil {
		i.store, err = i.openStore(i.t.Context(), i.js.Conn())
	}
	if err != nil {
		i.t.Fatal(err)
	}
}

// openStore opens the installation's store for a process.
func (i *installation) openStore(ctx context.Context, conn *nats.Conn) (store.Store, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	return register.Open(ctx, register.Config{JetStream: js, Prefix: prefix, Table: i.table, TableName: i.name})
}

// createTags creates trend tags.
func (i *installation) createTags(n int, step int64) (names []string) {
	i.t.Helper()
	for k := range n {
		names = append(names, fmt.Sprintf("tag%d", k))
		i.create(store.Tag{Name: names[k], Step: step, Next: 1})
	}
	return names
}

// createStrict creates strict tags.
func (i *installation) createStrict(n int) {
	i.t.Helper()
	for k := range n {
		i.create(store.Tag{Name: fmt.Sprintf("strict%d", k), Step: 1000, Next: 1, Order: store.Strict})
	}
}

func (i *installation) create(tag store.Tag) {
	i.t.Helper()
	if err := i.store.CreateTag(i.t.Context(), tag); err != nil {
		i.t.Fatal(err)
	}
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
		cfg.StoreName = i.name
		if cfg.Store, err = i.openStore(ctx, p.conns[1]); err != nil {
			return p, err
		}
	}
	if err = worker.Provision(ctx, cfg); err == nil {
		p.Process, err = worker.New(ctx, cfg)
	}
	if err == nil {
		err = p.Start(ctx)
	}
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
