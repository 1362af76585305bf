package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/internal/loads"
)

// loading is the half of a process that reserves segments. Load events reach its loader
// from the load stream, as plain messages, or from the answering half of the process.
type loading struct {
	processInfo
	loader     *loader
	consumer   *eventConsumer
	mirror     *mirror
	group      *membership // of load events as plain messages
	background *goroutines
}

func newLoading(p processInfo) *loading {
	l := newLoader(p.cfg, p.rules, p.cfg.Store)
	p.rules.Observe(func(tag string) {
		if tag == "" {
			l.firsts.forget()
		}
	})
	l.installation, l.foreign = p.installation.ID, p.foreign
	return &loading{
		processInfo: p,
		loader:      l,
		consumer: &eventConsumer{
			js: p.js, prefix: p.cfg.Prefix, replicas: p.cfg.Replicas, submit: l.submit, awaitRoom: l.turns.awaitRoom, foreign: p.foreign, log: p.cfg.Log,
		},
		mirror: &mirror{
			store:     p.cfg.Store,
			directory: p.directory,
			provision: func(ctx context.Context) error { return Provision(ctx, p.js, p.cfg.Prefix, p.cfg.Replicas) },
			health:    l.health,
			listed:    l.listed,
			log:       p.cfg.Log,
			absences:  newAbsences("store", p.cfg.TagRefresh, p.cfg.Log),
			unusable:  make(map[string]bool),
			skip:      p.rules.FromTemplate,
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
	l.background.start(func(ctx context.Context) { l.loader.firsts.run(ctx, l.cfg.Log) })
	l.background.start(l.consumer.run)
	l.background.start(l.mirrorTags)
	return nil
}

// mirrorTags mirrors the tags once the process does its work: there may be very many to read.
func (l *loading) mirrorTags(ctx context.Context) {
	select {
	case <-l.started:
		l.mirror.run(ctx, l.cfg.TagRefresh)
	case <-ctx.Done():
	}
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
	l.mirror.absences.collect(to)
	l.collectEvidence(to)
}

func (l *loading) fillStats(s *Stats) {
	s.Loads = &LoadStats{l.loader.calls(), l.loader.outcomes[loadFailed].Load(), l.cfg.Store.Figures().Burnt}
}
