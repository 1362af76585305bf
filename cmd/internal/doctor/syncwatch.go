package doctor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/pause"
)

// CheckSync is [durability.CheckServers], except that an embedded server has checked that itself.
func CheckSync(ctx context.Context, conn *nats.Conn) error {
	if conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	return durability.CheckServers(ctx, conn)
}

// Synced says whether what NATS acknowledged is still there after a power failure.
type Synced int32

// What is known about that.
const (
	SyncedYes       Synced = iota // all servers that answer sync every write
	SyncedNo                      // one does not
	SyncedUnknown                 // none says whether it does
	SyncedUnchecked               // nobody has looked yet
)

// SyncWatch looks again and again whether servers sync every write, and says so if they do not.
type SyncWatch struct {
	conn    *nats.Conn
	allowed bool
	log     *zap.Logger
	state   atomic.Int32
}

// NewSyncWatch returns one that has not looked yet. If it is allowed that servers do not sync, nothing is said
// about that.
func NewSyncWatch(conn *nats.Conn, allowed bool, log *zap.Logger) *SyncWatch {
	w := &SyncWatch{conn: conn, allowed: allowed, log: log}
	w.state.Store(int32(SyncedUnchecked))
	return w
}

// syncPoll is how often servers are asked: they may be restarted with other settings.
const syncPoll = 5 * time.Minute

// Run looks every five minutes until ctx ends. Servers that say nothing, perhaps because this user may not ask,
// are asked once: each time more would be an error on the connection.
func (w *SyncWatch) Run(ctx context.Context) {
	for ctx.Err() == nil && w.State() != SyncedUnknown {
		pause.For(ctx, syncPoll)
		w.Look(ctx)
	}
}

// Look asks the servers once, and logs what has changed for the worse or the better.
func (w *SyncWatch) Look(ctx context.Context) {
	err := CheckSync(ctx, w.conn)
	now := SyncedYes
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, durability.ErrNoSync):
		now = SyncedNo
	case err != nil:
		now = SyncedUnknown
		if was := w.State(); was == SyncedYes || was == SyncedNo {
			return // they are away at the moment
		}
	}
	if was := Synced(w.state.Swap(int32(now))); was != now && !w.allowed {
		w.say(was, now, err)
	}
}

func (w *SyncWatch) say(was, now Synced, err error) {
	switch now {
	case SyncedNo:
		w.log.Warn("NATS acknowledges writes before they are on disk: after a power failure IDs can be handed out twice; set sync_interval: always in the jetstream block of every server, or accept that with --allow-unsynced", zap.Error(err))
	case SyncedUnknown:
		w.log.Warn("NATS does not say whether every write is on disk before it is acknowledged: if not, IDs can be handed out twice after a power failure; set sync_interval: always in the jetstream block of every server, and let this user ask, see Durability in docs/operations.md, or accept that with --allow-unsynced", zap.Error(err))
	case SyncedYes:
		if was != SyncedUnchecked {
			w.log.Info("every NATS server has each write on disk before it acknowledges it, now")
		}
	}
}

// State is what is known.
func (w *SyncWatch) State() Synced { return Synced(w.state.Load()) }

// Unsafe reports whether a power failure could take back what was acknowledged, as far as is known, and nobody
// has accepted that.
func (w *SyncWatch) Unsafe() bool {
	now := w.State()
	return !w.allowed && (now == SyncedNo || now == SyncedUnknown)
}

// Metrics collects that.
func (w *SyncWatch) Metrics() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "idworker_nats_unsynced",
		Help: "Whether NATS may lose what it acknowledged in a power failure: a server does not sync every write, or none says whether it does. 1 or 0; 0 with --allow-unsynced.",
	}, func() float64 {
		if w.Unsafe() {
			return 1
		}
		return 0
	})
}
