package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/proxy"
)

// Pair is a primary server and an asynchronous replica: commits of the primary
// reach the replica later, or never. Both run on this machine. The embedded DB
// is always the primary's. Call its methods from the test's own goroutine.
type Pair struct {
	*DB
	t       testing.TB
	replica *DB
	how     replication

	servers map[*DB]*fromBinary
	link    *proxy.Proxy // by way of which the replica reaches the primary
}

// replication is how a kind of server replicates.
type replication interface {
	// prepare is called when the first server is installed and not started yet.
	prepare(primary *fromBinary) error

	// seed makes the data of a replica, which does not run, and starts it, so
	// that it follows the primary at that endpoint.
	seed(ctx context.Context, replica *fromBinary, primary endpoint) error

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
	return mysqlKind.pair(t, &binlog{})
}

// StartPostgresPair runs two PostgreSQL servers. The replica begins with
// [Pair.Follow].
func StartPostgresPair(t testing.TB) *Pair {
	t.Helper()
	return postgresKind.pair(t, streaming{})
}

func (k *kind) pair(t testing.TB, how replication) *Pair {
	t.Helper()
	first, second := k.folder(t), k.folder(t)
	if k == mysqlKind && !isMariaDB(first.program) {
		k.need.Missing(t, fmt.Errorf("%s is not MariaDB", first.program))
	}
	for _, step := range []func() error{
		first.install,
		func() error { return how.prepare(first) },
		first.startSomewhere,
	} {
		if err := step(); err != nil {
			t.Fatalf("%s: %v", first.program, err)
		}
	}
	first.describe(t)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	second.at.port = port
	primary := k.create(t, first.at)
	replica := &DB{kind: k, at: second.at, name: primary.name}
	return &Pair{
		DB: primary, t: t, replica: replica, how: how,
		servers: map[*DB]*fromBinary{primary: first, replica: second},
		link:    proxy.Start(t, primary.Addr()),
	}
}

// Replica is the database on the replica, to read from.
func (p *Pair) Replica() *DB { return p.replica }

// Follow makes the server that is not the primary a replica of it, whatever it
// was before, and returns when it has all that the primary had.
func (p *Pair) Follow() {
	p.t.Helper()
	p.link.Refuse()
	p.link.Switch(p.Addr())
	p.link.Accept()
	at := p.at
	at.host, at.port, _ = strings.Cut(p.link.Addr(), ":")
	ctx, cancel := context.WithTimeout(p.t.Context(), syncWithin)
	defer cancel()
	p.must("seed the replica", p.how.seed(ctx, p.servers[p.replica], at))
	p.replica.sql = p.kind.open(p.t, p.kind.dsn(p.replica.at, p.name))
	position, err := p.how.position(ctx, p.sql)
	p.must("ask the primary for its position", err)
	p.must("bring the replica into sync", eventually(syncWithin, func() error {
		return p.how.reached(ctx, p.replica.sql, position)
	}))
}

// Cut ends the replication: later commits of the primary do not reach the
// replica.
func (p *Pair) Cut() { p.link.Refuse() }

// FailOver kills the primary, and promotes the replica. It returns when the new
// primary takes writes. The killed server stays down until Follow.
func (p *Pair) FailOver() {
	p.t.Helper()
	p.link.Refuse()
	p.must("kill the primary", p.servers[p.DB].Kill())
	ctx, cancel := context.WithTimeout(p.t.Context(), syncWithin)
	defer cancel()
	p.must("promote the replica", p.how.promote(ctx, p.replica.sql))
	p.DB, p.replica = p.replica, p.DB
}

// SwitchOver makes the primary read-only, and promotes the replica once it has
// all that the primary had. The old primary runs on, with its connections.
func (p *Pair) SwitchOver() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), syncWithin)
	defer cancel()
	p.must("make the primary read-only", p.how.demote(ctx, p.sql))
	position, err := p.how.position(ctx, p.sql)
	p.must("ask the primary for its position", err)
	p.must("bring the replica into sync", eventually(syncWithin, func() error {
		return p.how.reached(ctx, p.replica.sql, position)
	}))
	p.must("promote the replica", p.how.promote(ctx, p.replica.sql))
	p.DB, p.replica = p.replica, p.DB
}

func (p *Pair) must(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %s: %v", p.kind.name, what, err)
	}
}

// errBehind: the replica has not applied everything yet.
var errBehind = errors.New("the replica is behind")

// Kill kills the primary, which Restart starts again.
func (p *Pair) Kill() {
	p.t.Helper()
	p.must("kill the primary", p.servers[p.DB].Kill())
	p.dropIdle()
}

// Restart starts a killed primary again on its data, and returns when it
// answers.
func (p *Pair) Restart() {
	p.t.Helper()
	p.must("restart the primary", p.servers[p.DB].Start())
}

// Pause freezes the primary: connections stay open, and nothing answers.
func (p *Pair) Pause() {
	p.t.Helper()
	p.must("pause the primary", p.servers[p.DB].Pause())
}

// Resume lets a paused primary continue.
func (p *Pair) Resume() {
	p.t.Helper()
	p.must("resume the primary", p.servers[p.DB].Resume())
}
