package enrich

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/leader"
)

// checkSameEvents refuses a record of enrichers that take other events, or send them
// elsewhere: an enricher that took only some of the events would pass over the others for
// good.
func (e *Enricher) checkSameEvents(r record) error {
	if (r.Filter == "" || r.Filter == e.cfg.Filter) && (r.To == "" || r.To == e.cfg.To) {
		return nil
	}
	return configError("enrichment %s takes %q to %q, not %q to %q; use another target stream, or delete key %s of bucket %s once its enrichers have ended: the next one then goes on where the target ends",
		e.name, r.Filter, r.To, e.cfg.Filter, e.cfg.To, e.name, BucketName(e.cfg.Prefix))
}

// identifyStreams makes sure that source and target are those of the record. A source that
// was deleted and created again is read from its first event; a target that was, goes on
// where the record is.
func (e *Enricher) identifyStreams(ctx context.Context) error {
	source, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	target, err := e.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	r := &e.record
	if r.revision != 0 && !r.Source.Equal(source.Created) {
		e.log.Warn("the source stream was created again, starting at its first event")
		r.Done, r.Plan = 0, nil
	}
	if r.revision != 0 && !r.Target.Equal(target.Created) {
		e.log.Warn("the target stream was created again; earlier events are not enriched a second time", zap.Uint64("source_sequence", r.Done))
		r.Last = 0
	}
	if last := source.State.LastSeq; last < r.Done {
		return fmt.Errorf("%w: stream %s ends at sequence %d, but the events through %d were enriched; its server has lost events that it had acknowledged, see sync_interval",
			ErrAmbiguous, e.cfg.From, last, r.Done)
	}
	r.Source, r.Target = source.Created, target.Created
	r.Filter, r.To = e.cfg.Filter, e.cfg.To
	if r.revision == 0 {
		r.Last = target.State.LastSeq
		return e.recoverPosition(ctx, source.State.LastSeq)
	}
	return nil
}

// recoverPosition is for a record that does not exist, or was lost: its position is that
// of the latest event in the target.
func (e *Enricher) recoverPosition(ctx context.Context, sourceLast uint64) error {
	msg, err := leader.Last(ctx, e.cfg.JetStream, e.target.CachedInfo().Config.Name, e.cfg.To)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	if seq, ours := parseOrigin(e.cfg.From, msg.Header); ours && seq <= sourceLast {
		e.log.Warn("there is no record of this enrichment, going on where the target ends", zap.Uint64("source_sequence", seq))
		e.record.Done = seq
	}
	return nil
}

// checkSameSource returns an error that wraps errSource unless the source still is the one
// of the record.
func (e *Enricher) checkSameSource(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	info, err := e.source.Info(ctx)
	if err == nil && !info.Created.Equal(e.record.Source) {
		err = errors.New("the stream was created again")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	return nil
}
