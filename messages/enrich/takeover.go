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

// takeOver makes this enricher the owner in the record, and publishes what is left of the
// plan that it finds there.
func (e *Enricher) takeOver(ctx context.Context) error {
	if err := e.claimRecord(ctx); err != nil || e.record.Plan == nil {
		return err
	}
	msgs, err := e.restampPlan(ctx)
	if err != nil {
		return err
	}
	return e.publishPlan(ctx, msgs)
}

// claimRecord writes this enricher into the record as its owner, together with the fate of
// the plan in it.
func (e *Enricher) claimRecord(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	e.record.Owner = e.instance
	if err := e.identifyStreams(ctx); err != nil {
		return err
	}
	if err := e.record.settlePlan(ctx, e.cfg.JetStream, e.cfg.From, e.target); err != nil {
		return err
	}
	return e.record.save(ctx)
}

// restampPlan makes the messages of the record's plan once more, with the same IDs. Events
// that are no longer in the source leave the plan.
func (e *Enricher) restampPlan(ctx context.Context) ([]*nats.Msg, error) {
	var msgs []*nats.Msg
	left := &plan{}
	for _, seq := range e.record.Plan.sequences() {
		raw, err := leader.At(ctx, e.cfg.JetStream, e.cfg.From, seq)
		if time.Since(e.record.written) > heartbeat { // reading them one by one takes time
			if err := e.saveRecord(ctx); err != nil {
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
		id, _ := e.record.Plan.idOf(seq)
		msg, err := e.stamper.stamp(event{seq: seq, subject: raw.Subject, header: raw.Header, data: raw.Data}, id)
		if err != nil {
			return nil, err
		}
		left.addEvent(seq, id)
		msgs = append(msgs, msg)
	}
	if left.size() == e.record.Plan.size() {
		return msgs, nil
	}
	left.Through = e.record.Plan.Through
	e.record.Plan = left
	return msgs, e.record.save(ctx)
}
