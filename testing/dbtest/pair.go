package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
)

// Pair is a primary server and an asynchronous replica: commits of the primary
// reach the replica later, or never. The embedded Instance is always the primary.
// Call its methods from the test's own goroutine.
type Pair struct {
	*Instance
	replica *Instance
	how     replication
	link    *proxy.Proxy // by way of which the replica reaches the primary
}

// replication is how a kind of server replicates.
type replication interface {
	// prepare is called when the first server is installed and not started yet.
	prepare(primary *local) error

	// seed makes the data of a replica, which does not run, and starts it, so
	// that it follows the primary at that endpoint.
	seed(ctx context.Context, replica *local, primary account) error

	// position is the end of the primary's log.
	position(ctx context.Context, primary *sql.DB) (string, error)

	// reached returns nil when the replica has applied all up to a position.
	reached(ctx context.Context, replica *sql.DB, position string) error

	// demote makes the primary read-only for users without special rights.
	demote(ctx context.Context, primary *sql.DB) error

	// promote makes the replica a primary, and returns when it takes writes.
	promote(ctx context.Context, replica *sql.DB) error
}

// syncWithin bounds the time until a replica has caught up.
const syncWithin = 2 * time.Minute

// StartMariaDBPair runs two MariaDB servers. The replica begins with
// [Pair.Follow].
func StartMariaDBPair(t testing.TB) *Pair {
	t.Helper()
	return mysqlServer.pair(t, &binlog{})
}

// StartPostgresPair runs two PostgreSQL servers. The replica begins with
// [Pair.Follow].
func StartPostgresPair(t testing.TB) *Pair {
	t.Helper()
	return postgresServer.pair(t, streaming{})
}

func (b *brand) pair(t testing.TB, how replication) *Pair {
	t.Helper()
	program := b.need.Require(t)
	if b == mysqlServer && !isMariaDB(program) {
		b.need.Missing(t, fmt.Errorf("%s is not MariaDB", program))
	}
	first, err := b.folder(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.remove)
	second, err := b.folder(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.remove)
	for _, step := range []func() error{first.fill, func() error { return how.prepare(first) }, first.startSomewhere} {
		if err := step(); err != nil {
			t.Fatalf("%s: %v", program, err)
		}
	}
	second.at.port = strconv.Itoa(freeport.Get(t))
	primary := b.serverOn(t, first)
	replica := &Instance{&DB{brand: b, at: second.at, name: primary.name}, t, second}
	return &Pair{Instance: primary, replica: replica, how: how, link: proxy.Start(t, primary.Addr())}
}

// Replica is the database on the replica, to read from.
func (p *Pair) Replica() *DB { return p.replica.DB }

// Follow makes the server that is not the primary a replica of it, whatever it
// was before, and returns when it has all that the primary had.
func (p *Pair) Follow() {
	p.t.Helper()
	p.link.Refuse()
	p.link.Turn(p.Addr())
	p.link.Accept()
	at := p.at
	at.host, at.port, _ = strings.Cut(p.link.Addr(), ":")
	ctx, cancel := context.WithTimeout(p.t.Context(), syncWithin)
	defer cancel()
	p.must("copy", p.how.seed(ctx, p.replica.local, at))
	p.replica.sql = p.brand.open(p.t, p.brand.dsn(p.replica.at, p.name))
	p.catchUp(ctx)
}

// Cut ends the replication: later commits of the primary do not reach the
// replica.
func (p *Pair) Cut() { p.link.Refuse() }

// FailOver kills the primary, and promotes the replica. It returns when the new
// primary takes writes. The killed server stays down until Follow.
func (p *Pair) FailOver() {
	p.t.Helper()
	p.link.Refuse()
	p.must("kill", p.local.kill())
	ctx, cancel := context.WithTimeout(p.t.Context(), syncWithin)
	defer cancel()
	p.must("promote", p.how.promote(ctx, p.replica.sql))
	p.Instance, p.replica = p.replica, p.Instance
}

// SwitchOver makes the primary read-only, and promotes the replica once it has
// all that the primary had. The old primary runs on, with its connections.
func (p *Pair) SwitchOver() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), syncWithin)
	defer cancel()
	p.must("demote", p.how.demote(ctx, p.sql))
	p.catchUp(ctx)
	p.must("promote", p.how.promote(ctx, p.replica.sql))
	p.Instance, p.replica = p.replica, p.Instance
}

// catchUp waits until the replica has all that the primary had.
func (p *Pair) catchUp(ctx context.Context) {
	p.t.Helper()
	position, err := p.how.position(ctx, p.sql)
	p.must("ask", err)
	p.must("follow", natstest.Await(syncWithin, "the replica", func() error {
		return p.how.reached(ctx, p.replica.sql, position)
	}))
}

// errBehind: the replica has not applied everything yet.
var errBehind = errors.New("the replica is behind")
