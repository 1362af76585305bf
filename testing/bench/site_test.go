package bench

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/sql"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// connector is a server or a cluster.
type connector interface {
	Connect(t testing.TB, opts ...nats.Option) *nats.Conn
}

// syncAlways has a server sync each write, and log nothing between the tables.
func syncAlways(o *server.Options) { o.SyncAlways, o.NoLog = true, true }

// site is an installation whose processes are in this one, each with its two
// connections.
type site struct {
	t        testing.TB
	net      connector
	table    store.Database // behind the register, or nil
	js       jetstream.JetStream
	register *register.Register // of the test itself
	cfg      worker.Config      // of all processes; if it has no store, each loader opens the register
}

// newSite creates the register on a server, and opens it for the test itself.
func newSite(t testing.TB, net connector, cfg worker.Config, table store.Database) *site {
	t.Helper()
	cfg.Prefix, cfg.Replicas, cfg.Version = cmp.Or(cfg.Prefix, messages.DefaultPrefix), cmp.Or(cfg.Replicas, 1), "0.0.0"
	s := &site{t: t, net: net, table: table, cfg: cfg}
	s.js = natstest.JetStream(t, net.Connect(t, nats.ReconnectBufSize(-1)))
	err := register.Create(t.Context(), s.js, cfg.Prefix, cfg.Replicas)
	if err == nil {
		s.register, err = s.open(s.js)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) open(js jetstream.JetStream) (*register.Register, error) {
	cfg := register.Config{JetStream: js, Prefix: s.cfg.Prefix}
	if s.table != nil {
		cfg.Table = s.table
	}
	return register.Open(s.t.Context(), cfg)
}

// create creates a tag.
func (s *site) create(tag store.Tag) {
	s.t.Helper()
	if err := s.register.CreateTag(s.t.Context(), tag); err != nil {
		s.t.Fatal(err)
	}
}

// createTags creates many tags.
func (s *site) createTags(n int, name string, order store.Order) (names []string) {
	s.t.Helper()
	for k := range n {
		names = append(names, fmt.Sprint(name, k))
		s.create(store.Tag{Name: names[k], Step: 1000, Next: 1, Order: order})
	}
	return names
}

// member is a process of a site.
type member struct {
	*worker.Process
	conns []*nats.Conn
}

// start starts a process. It may be called from any goroutine.
func (s *site) start(role worker.Role) (m member, err error) {
	cfg := s.cfg
	cfg.Role, cfg.Requests, cfg.Control = role, s.net.Connect(s.t), s.net.Connect(s.t, nats.ReconnectBufSize(-1))
	m.conns = []*nats.Conn{cfg.Requests, cfg.Control}
	if !role.Loads() {
		cfg.Store = nil
	} else if cfg.Store == nil {
		cfg.Store, err = s.open(natstest.JetStream(s.t, cfg.Control))
	}
	ctx := s.t.Context()
	if err == nil {
		cfg.Made, err = worker.Provision(ctx, cfg)
	}
	if err == nil {
		m.Process, err = worker.New(ctx, cfg)
	}
	if err == nil {
		err = m.Start(ctx)
	}
	if err != nil {
		m.close()
	}
	return m, err
}

func (m member) close() {
	for _, conn := range m.conns {
		conn.Close()
	}
}

// stop stops it as SIGTERM does.
func (m member) stop() error {
	defer m.close()
	return m.Stop()
}

// mustStart starts a process that ends with the test.
func (s *site) mustStart(role worker.Role) *worker.Process {
	s.t.Helper()
	m, err := s.start(role)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := m.stop(); err != nil {
			s.t.Error(err)
		}
	})
	return m.Process
}

// databases are those that a register can stand in front of. Their servers sync
// every commit, as the NATS server syncs every write.
var databases = []struct {
	name  string
	start func(testing.TB) *dbtest.Instance
}{
	{"mysql", func(t testing.TB) *dbtest.Instance {
		return dbtest.StartMySQL(t, "--innodb-flush-log-at-trx-commit=1")
	}},
	{"postgres", func(t testing.TB) *dbtest.Instance { return dbtest.StartPostgres(t, "-c", "fsync=on") }},
}

// openTable creates Leaf's table in an empty database.
func openTable(t testing.TB, db *dbtest.DB) *sql.LeafTable {
	t.Helper()
	table, err := sql.Open(db.DSN(), "leaf_alloc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	if err := table.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return table
}
