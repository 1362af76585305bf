package enrich

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/leader"
)

// Resume decides that all events of the source through the sequence after count as enriched,
// and no others: where nothing else proves how far an enrichment is, and after its settings
// have changed. It refuses what the streams contradict, with an error that wraps [ErrConfig].
// Enrichers that run go on from there, if their settings are those of cfg. Others stand
// still.
func Resume(ctx context.Context, cfg Config, after uint64) error {
	e, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	source, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	target, err := e.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	state, first := source.State, max(source.State.FirstSeq, 1)
	if after > state.LastSeq {
		return configError("stream %s ends at sequence %d, so nothing can resume after %d", cfg.From, state.LastSeq, after)
	}
	at, err := e.sourceTime(ctx, after)
	if err != nil {
		return err
	}
	if at.IsZero() && after >= first {
		return configError("stream %s has no event %d", cfg.From, after)
	}
	if err := e.checkNotEnriched(ctx, after); err != nil {
		return err
	}
	e.record.record = record{settings: e.cfg.settings(), Done: after, Time: at, Last: target.State.LastSeq, Doubt: true}
	if at.IsZero() { // all events through it are gone
		e.record.Done = max(after, first-1)
	}
	if err := e.saveRecord(ctx); err != nil {
		return err
	}
	e.log.Info("the enrichment resumes", zap.Uint64("after", after))
	return nil
}

// checkNotEnriched refuses to resume before an event that is in the target: an event of the
// source that is older than what the target says is made of it.
func (e *Enricher) checkNotEnriched(ctx context.Context, after uint64) error {
	msg, err := leader.Last(ctx, e.cfg.JetStream, e.targetName(), e.cfg.To)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	seq, ours := parseOrigin(e.cfg.From, msg.Header)
	if !ours || seq <= after {
		return nil
	}
	at, err := e.sourceTime(ctx, seq)
	if err != nil || at.IsZero() || at.After(msg.Time) {
		return err // gone, or an event of another stream of that name
	}
	return configError("stream %s has event %d of stream %s already, so resuming after %d would enrich events twice", e.targetName(), seq, e.cfg.From, after)
}
