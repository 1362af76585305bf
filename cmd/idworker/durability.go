package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/store"
)

// A server or a database that may forget in a crash what it acknowledged is no
// reason for a process not to serve, but the log says it once.

// syncWatch asks again and again whether NATS servers sync every write. One
// goroutine uses it at a time.
type syncWatch struct {
	check   func(context.Context) error // doctor.CheckSync
	allowed bool                        // servers need not sync
	log     *zap.Logger
	metric  prometheus.Gauge

	looked bool // the rest is known
	told   bool // whether servers said anything
	synced bool // every write
}

func newSyncWatch(check func(context.Context) error, allowed bool, log *zap.Logger) *syncWatch {
	return &syncWatch{check: check, allowed: allowed, log: log, metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "idworker_nats_unsynced",
		Help: "Whether NATS may lose what it acknowledged in a power failure: a server does not sync every write, or none says whether it does. 1 or 0; 0 with --allow-unsynced.",
	})}
}

// syncPoll is how often servers are asked: they may be restarted with other settings.
const syncPoll = 5 * time.Minute

// run looks every five minutes until ctx ends. Servers that say nothing, perhaps
// because this user may not ask, are asked once: each time more would be an error
// on the connection.
func (w *syncWatch) run(ctx context.Context) {
	for ctx.Err() == nil && w.told {
		pause.For(ctx, syncPoll)
		w.look(ctx)
	}
}

// look asks the servers once, and logs what has changed for the worse or the better.
func (w *syncWatch) look(ctx context.Context) {
	err := w.check(ctx)
	first, told, synced := !w.looked, err == nil || errors.Is(err, durability.ErrNoSync), err == nil
	if ctx.Err() != nil || !first && (!told || synced == w.synced) {
		return // servers that say nothing any more are away at the moment
	}
	w.looked, w.told, w.synced = true, told, synced
	switch {
	case w.allowed:
	case !synced:
		w.metric.Set(1)
		w.log.Warn("NATS may lose in a power failure what it acknowledged, and IDs can then be handed out twice; "+
			"set sync_interval: always in the jetstream block of every server, and let this user ask, see Durability in docs/operations.md, or accept that with --allow-unsynced", zap.Error(err))
	case !first:
		w.metric.Set(0)
		w.log.Info("every NATS server has each write on disk before it acknowledges it, now")
	}
}

// warnOfSettings logs what a crash of the database's machine could do to IDs, given what
// is wrong with its settings. A database that does not answer has been logged before; when it
// comes, the doctor can be asked.
func warnOfSettings(wrong error, log *zap.Logger) {
	for _, err := range problem.Parts(wrong) {
		var unsafe *store.UnsafeSettingError
		switch {
		case errors.As(err, &unsafe):
			log.Warn("the database acknowledges commits before they are on disk: after a crash IDs can be handed out twice",
				zap.String("setting", unsafe.Setting), zap.String("value", unsafe.Value), zap.String("want", unsafe.Want))
		case errors.Is(err, store.ErrSettingUnknown):
			log.Warn("the database does not tell whether every commit is on disk before it is acknowledged, see Durability in docs/databases.md", zap.Error(err))
		}
	}
}
