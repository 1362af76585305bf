package nemesis

import (
	"sync"
	"time"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/proxy"
)

// database is the store outside JetStream: a primary, and a replica that lags
// and may be promoted. Loaders reach it through a proxy that leads to the
// primary, as an address does that follows it.
type database struct {
	pair  *dbtest.Pair
	proxy *proxy.Proxy

	fault sync.Mutex // held by the fault that is under way
}

// startDatabase starts the databases of the store, if it has any.
func (r *Run) startDatabase() {
	var d *database
	switch r.Store {
	case "jetstream":
		return
	case "mysql":
		d = &database{pair: dbtest.StartMariaDBPair(r.T)}
		d.pair.Exec(r.T, leaftest.MySQL.Shapes["official"]+exact)
	case "postgres":
		d = &database{pair: dbtest.StartPostgresPair(r.T)}
		d.pair.Exec(r.T, leaftest.Postgres.Shapes["official"])
	default:
		r.T.Fatalf("no store %q: want jetstream, mysql or postgres", r.Store)
	}
	d.proxy = proxy.Start(r.T, d.pair.Addr())
	d.pair.Follow()
	r.database = d
}

func (d *database) dsn() string { return d.pair.DSNVia(d.proxy) }

// exact has MySQL distinguish Order from order; without it, there are no
// templates.
const exact = " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"

// raises is part of each statement that raises a row.
const raises = "SET max_id = "

// slow is the delay of a packet to or from a slow database.
const slow = 400 * time.Millisecond

// begin injects a fault of the database, after the last fault is over: making a
// replica needs a live primary, and on a busy machine takes longer than the
// schedule expects.
func (d *database) begin(f Fault) (mend func()) {
	d.fault.Lock()
	undo := d.inject(f)
	return func() {
		defer d.fault.Unlock()
		undo()
	}
}

// inject injects a fault. A failover begins with a replica that is cut off:
// commits from then until the primary is killed are lost.
func (d *database) inject(f Fault) (mend func()) {
	switch f.Kind {
	case "database killed":
		d.pair.Kill()
		return d.pair.Restart
	case "database frozen":
		d.pair.Pause()
		return d.pair.Resume
	case "failover":
		d.pair.Cut()
		return func() {
			d.pair.FailOver()
			d.proxy.Switch(d.pair.Addr())
			d.pair.Follow()
		}
	case "answers cut":
		d.proxy.CutAnswers(raises)
		return func() { d.proxy.CutAnswers("") }
	case "database cut off":
		d.proxy.Refuse()
		return d.proxy.Accept
	default: // slow
		d.proxy.Delay(slow, 0)
		return func() { d.proxy.Delay(0, 0) }
	}
}
