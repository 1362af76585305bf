package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/store/guard"
)

// loading is the half of a process that reserves segments. Load events reach its loader
// from the load stream, as plain messages, or from the answering half of the process.
type loading struct {
	process
	guard      *guard.Guard
	loader     *loader
	consumer   *eventConsumer
	mirror     *mirror
	plainSub   *nats.Subscription // from start on
	background *goroutines
}

func newLoading(p process) *loading {
	g := guard.New(p.cfg.Store, p.cfg.StoreName, p.cfg.Log)
	l := newLoader(p.cfg, g)
	return &loading{
		process: p,
		guard:   g,
		loader:  l,
		consumer: &eventConsumer{
			js: p.js, prefix: p.cfg.Prefix, replicas: p.cfg.Replicas, submit: l.submit, log: p.cfg.Log,
		},
		mirror: &mirror{
			store:     p.cfg.Store,
			directory: p.directory,
			provision: func(ctx context.Context) error { return Provision(ctx, p.js, p.cfg.Prefix, p.cfg.Replicas) },
			outage:    l.outage,
			log:       p.cfg.Log,
			unusable:  make(map[string]bool),
		},
		background: newGoroutines(),
	}
}

func (l *loading) start(context.Context) (err error) {
	subject := loads.ReserveSubject(l.cfg.Prefix)
	l.plainSub, err = l.cfg.Control.QueueSubscribe(subject, l.cfg.Prefix.QueueGroup(), l.loader.receivePlain)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	l.background.start(l.guard.Run)
	if k, ok := l.cfg.Store.(keeper); ok {
		l.background.start(k.Keep)
	}
	l.background.start(l.consumer.run)
	l.background.start(func(ctx context.Context) { l.mirror.run(ctx, l.cfg.TagRefresh) })
	return nil
}

// keeper is a store that has something to do besides, such as filling its ledger.
type keeper interface{ Keep(ctx context.Context) }

// stop finishes the loads that have begun: the store may be closed next.
func (l *loading) stop() error {
	err := unsubscribe(l.plainSub)
	l.background.stop()
	l.loader.stop()
	return err
}

func (l *loading) ready() error {
	if !l.consumer.consuming.Load() {
		return errors.New("load events are not consumed: JetStream is away")
	}
	return nil
}

func (l *loading) collect(to sink) {
	l.loader.collect(to)
	l.collectEvidence(to)
}

func (l *loading) fillStats(s *Stats) {
	s.Loads = &LoadStats{l.loader.calls(), l.loader.outcomes[loadFailed].Load(), l.ledgerFigures().Burnt}
}
