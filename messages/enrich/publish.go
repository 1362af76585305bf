package enrich

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// enrichBatch publishes the dead letters of a prepared batch, saves its plan in the record
// and publishes its events.
func (e *Enricher) enrichBatch(ctx context.Context, batch preparedBatch) error {
	if batch.err != nil {
		if errors.Is(batch.err, errSource) {
			return batch.err
		}
		e.starved = true
		e.reportFailure(batch.err)
		return nil
	}
	e.starved = false
	if err := e.publishDeadLetters(ctx, batch.dead); err != nil {
		return err
	}
	e.record.Plan = batch.plan
	if err := e.saveRecord(ctx); err != nil {
		return err
	}
	if err := e.publishPlan(ctx, batch.msgs); err != nil {
		return err
	}
	e.figures.countBatch(len(batch.msgs), batch.lag)
	return nil
}

// publishPlan publishes the messages of the record's plan and moves the record on, in
// memory. It does so even if ctx has ended, within twice exchangeTimeout.
func (e *Enricher) publishPlan(ctx context.Context, msgs []*nats.Msg) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*exchangeTimeout)
	defer cancel()
	if len(msgs) > 0 {
		last, err := publishBatch(ctx, e.cfg.Conn, msgs, e.record.Last)
		if err != nil {
			return fmt.Errorf("publish to the target: %w", err)
		}
		e.record.Last = last
	}
	e.record.Done, e.record.Plan = e.record.Plan.Through, nil
	e.reportSuccess()
	return nil
}
