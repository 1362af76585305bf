package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/store"
)

// A server or database that may lose acknowledged writes in a crash does not
// keep a process from serving. The log warns once.

// syncWatch checks repeatedly whether NATS servers sync every write, and whether
// the replicas of the installation's streams agree. It is not safe for concurrent
// use.
type syncWatch struct {
	check   func(context.Context) error // health.CheckSync
	compare func(context.Context) error // health.CompareReplicas
	allowed bool                        // servers need not sync
	log     *zap.Logger
	metric  prometheus.Gauge
	differ  prometheus.Gauge
	differs bool // as differ shows

	looked   bool // the fields below are set
	answered bool // a server has answered
	synced   bool // every server syncs every write
}

func newSyncWatch(check, compare func(context.Context) error, allowed bool, log *zap.Logger) *syncWatch {
	return &syncWatch{check: check, compare: compare, allowed: allowed, log: log, metric: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "idworker_nats_unsynced",
		Help: "1 if a power failure may lose acknowledged NATS writes: a server does not sync every write, or none reports it. Else, and with --allow-unsynced, 0.",
	}), differ: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "idworker_nats_replicas_differ",
		Help: "1 if replicas of the installation's buckets have different numbers of messages at the same last sequence. Else, and if NATS servers do not report that, 0.",
	})}
}

// syncPoll is the interval of checks: a server may restart with other settings.
const syncPoll = 5 * time.Minute

// run checks every five minutes until ctx ends. If no server answers, perhaps
// because this user lacks the right, it checks only once: each further request
// would be an error on the connection.
func (w *syncWatch) run(ctx context.Context) {
	for ctx.Err() == nil && w.answered {
		w.lookAtReplicas(ctx)
		pause.For(ctx, syncPoll)
		w.look(ctx)
	}
}

// look checks the servers once, and logs a change.
func (w *syncWatch) look(ctx context.Context) {
	err := w.check(ctx)
	first, answered, synced := !w.looked, err == nil || errors.Is(err, durability.ErrNoSync), err == nil
	if ctx.Err() != nil || !first && (!answered || synced == w.synced) {
		return // servers that no longer answer are unreachable at the moment
	}
	w.looked, w.answered, w.synced = true, answered, synced
	switch {
	case w.allowed:
	case !synced:
		w.metric.Set(1)
		w.log.Warn("NATS may not sync every write", zap.Error(err),
			zap.String("risk", "duplicate IDs after a power failure"),
			zap.String("hint", "set sync_interval: always on every server and let this user check it, see Durability in docs/operations.md, or accept it with --allow-unsynced"))
	case !first:
		w.metric.Set(0)
		w.log.Info("NATS now syncs every write")
	}
}

// lookAtReplicas compares the replicas once, and logs a change. An error of the
// comparison itself proves nothing.
func (w *syncWatch) lookAtReplicas(ctx context.Context) {
	err := w.compare(ctx)
	differs := errors.Is(err, health.ErrReplicasDiffer)
	if differs == w.differs || err != nil && !differs {
		return
	}
	w.differs = differs
	if !differs {
		w.differ.Set(0)
		w.log.Info("NATS replicas agree again")
		return
	}
	w.differ.Set(1)
	w.log.Error("NATS replicas differ", zap.Error(err), zap.String("risk", "duplicate IDs once another replica leads"),
		zap.String("hint", "see replicas that differ in docs/operations.md"))
}

// warnOfSettings logs the settings with which a crash of the database's machine
// could cause duplicate IDs. It ignores a database that does not answer, which
// has been logged before; run doctor once it answers.
func warnOfSettings(wrong error, log *zap.Logger) {
	for _, err := range problem.Parts(wrong) {
		var unsafe *store.UnsafeSettingError
		switch {
		case errors.As(err, &unsafe):
			log.Warn("database acknowledges commits before syncing them", zap.String("risk", "duplicate IDs after a crash"),
				zap.String("setting", unsafe.Setting), zap.String("value", unsafe.Value), zap.String("want", unsafe.Want))
		case errors.Is(err, store.ErrSettingUnknown):
			log.Warn("database sync settings unknown", zap.Error(err), zap.String("hint", "see docs/stores.md"))
		}
	}
}
