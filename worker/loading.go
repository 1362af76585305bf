package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/internal/templates"
)

// loading is the half of a process that reserves segments. Load events reach its loader
// from the load stream, as plain messages, or from the answering half of the process.
type loading struct {
	processInfo
	loader     *loader
	consumer   *eventConsumer
	group      *membership // of load events as plain messages
	background *goroutines
}

func newLoading(p processInfo) *loading {
	l := newLoader(p.cfg, newLookups(p.cfg.Store, func(ctx context.Context) (templates.List, error) {
		return templates.Read(ctx, p.js, p.cfg.Prefix)
	}))
	l.installation, l.foreign = p.installation.ID, p.foreign
	return &loading{
		processInfo: p,
		loader:      l,
		consumer: &eventConsumer{
			js: p.js, prefix: p.cfg.Prefix, replicas: p.cfg.Replicas, submit: l.submit, awaitRoom: l.turns.awaitRoom, foreign: p.foreign, log: p.cfg.Log,
		},
		group:      newMembership(p.cfg.Log),
		background: newGoroutines(),
	}
}

func (l *loading) start(ctx context.Context) error {
	subject := loads.ReserveSubject(l.cfg.Prefix)
	err := awaitJoined(ctx, l.group.join(func() (member, error) {
		sub, err := l.cfg.Control.QueueSubscribe(subject, l.cfg.Prefix.QueueGroup(), l.loader.receivePlain)
		if err != nil {
			return nil, err
		}
		return newPlainMember(sub), nil
	}))
	if err != nil {
		l.group.close()
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	l.background.start(l.cfg.Store.Run)
	l.background.start(func(ctx context.Context) { l.loader.lookups.run(ctx, l.cfg.Log) })
	l.background.start(l.consumer.run)
	return nil
}

// stop finishes the loads that have begun: the store may be closed next.
func (l *loading) stop() error {
	l.group.close()
	l.background.stop()
	l.loader.stop()
	return nil
}

// giveWay leaves plain load events to another installation, or takes them again. The load
// stream is still consumed: it has the events of the other installation too, as far as they
// come here, and one that is not removed would have the stream refuse the next one, which the
// worker might take for the answer of its own.
func (l *loading) giveWay(_ context.Context, away bool) { l.group.stayAway(givingWay, away) }

// ready reports what keeps a loader from its work. A process that answers requests, too, is
// ready although its register went back: see [Process.Degraded].
func (l *loading) ready() error {
	if err := l.cfg.Store.Stopped(); err != nil && !l.cfg.answers() {
		return err
	}
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
	s.Loads = &LoadStats{l.loader.calls(), l.loader.outcomes[loadFailed].Load(), l.cfg.Store.Figures().Burnt}
}
