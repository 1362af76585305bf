package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/leader"
)

// load reads the record, within stepTimeout. It has to be one of the same events.
func (e *Enricher) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := e.book.load(ctx); err != nil {
		return err
	}
	return e.sameAs(e.book.record)
}

// begin writes this enricher into the record as its owner, and brings what was left of a
// plan to its end.
func (e *Enricher) begin(ctx context.Context) error {
	if err := e.take(ctx); err != nil || e.book.Plan == nil {
		return err
	}
	msgs, err := e.planned(ctx)
	if err != nil {
		return err
	}
	return e.publish(ctx, msgs)
}

// take writes this enricher into the record, with what became of the plan in it.
func (e *Enricher) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	e.book.Owner = e.instance
	if err := e.recognise(ctx); err != nil {
		return err
	}
	if err := e.book.settle(ctx, e.cfg.JetStream, e.cfg.From, e.target); err != nil {
		return err
	}
	return e.book.save(ctx)
}

// recognise makes sure that source and target are those of the record. A stream that
// was deleted and made anew is another one, and the record begins anew.
func (e *Enricher) recognise(ctx context.Context) error {
	source, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	target, err := e.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	b := &e.book
	if b.revision != 0 && !b.Source.Equal(source.Created) {
		e.log.Warn("the source stream was made anew since, beginning at its first event")
		b.Done, b.Plan = 0, nil
	}
	if b.revision != 0 && !b.Target.Equal(target.Created) {
		e.log.Warn("the target stream was made anew since; what was enriched before is not enriched again", zap.Uint64("source_sequence", b.Done))
		b.Last = 0
	}
	if last := source.State.LastSeq; last < b.Done {
		return fmt.Errorf("%w: stream %s ends at sequence %d, but %d was enriched; its server has lost events it had acknowledged, see sync_interval",
			ErrAmbiguous, e.cfg.From, last, b.Done)
	}
	b.Source, b.Target = source.Created, target.Created
	b.Filter, b.To = e.cfg.Filter, e.cfg.To
	if b.revision == 0 {
		b.Last = target.State.LastSeq
		return e.recall(ctx, source.State.LastSeq)
	}
	return nil
}

// sameAs refuses a record of enrichers that take other events, or send them elsewhere: one
// that took only some would pass the others for good.
func (e *Enricher) sameAs(r record) error {
	if (r.Filter == "" || r.Filter == e.cfg.Filter) && (r.To == "" || r.To == e.cfg.To) {
		return nil
	}
	return bad("enrichment %s takes %q to %q, not %q to %q; use another target stream, or, once its enrichers have ended, delete key %s of bucket %s: the next one then goes on where the target ends",
		e.name, r.Filter, r.To, e.cfg.Filter, e.cfg.To, e.name, BucketName(e.cfg.Prefix))
}

// recall takes up a record that was lost where the target's latest event says.
func (e *Enricher) recall(ctx context.Context, sourceLast uint64) error {
	msg, err := leader.Last(ctx, e.cfg.JetStream, e.target.CachedInfo().Config.Name, e.cfg.To)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	if seq, ours := originSeq(e.cfg.From, msg.Header); ours && seq <= sourceLast {
		e.log.Warn("no record of this enrichment, taken up where the target ends", zap.Uint64("source_sequence", seq))
		e.book.Done = seq
	}
	return nil
}

// planned makes the messages of the record's plan anew. An event that the source has
// dropped since leaves the plan.
func (e *Enricher) planned(ctx context.Context) ([]*nats.Msg, error) {
	var msgs []*nats.Msg
	left := &plan{}
	for _, seq := range e.book.Plan.sequences() {
		raw, err := leader.At(ctx, e.cfg.JetStream, e.cfg.From, seq)
		if time.Since(e.book.written) > heartbeat { // one by one they take their time
			if err := e.save(ctx); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			e.log.Warn("an event was removed from the source before it was enriched", zap.Uint64("source_sequence", seq))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		id, _ := e.book.Plan.id(seq)
		msg, err := e.stamper.stamp(event{seq: seq, subject: raw.Subject, header: raw.Header, data: raw.Data}, id)
		if err != nil {
			return nil, err
		}
		left.add(seq, id)
		msgs = append(msgs, msg)
	}
	if left.size() == e.book.Plan.size() {
		return msgs, nil
	}
	left.Through = e.book.Plan.Through
	e.book.Plan = left
	return msgs, e.book.save(ctx)
}
