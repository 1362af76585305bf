package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// step buries the dead letters of a batch, saves its plan and publishes it.
func (e *Enricher) step(ctx context.Context, batch prepared) error {
	if batch.err != nil {
		if errors.Is(batch.err, errSource) {
			return batch.err
		}
		e.starved = true
		e.failed(batch.err)
		return nil
	}
	e.starved = false
	if len(batch.dead) > 0 { // which may be in the target, behind what the record speaks of
		if err := e.save(ctx); err != nil {
			return err
		}
	}
	for _, d := range batch.dead {
		if err := e.bury(ctx, d); err != nil {
			return err
		}
	}
	if len(batch.dead) > 0 {
		e.log.Warn("events were sent to the dead-letter subject", zap.Int("events", len(batch.dead)),
			zap.Uint64("first", batch.dead[0].event.seq), zap.Error(batch.dead[0].reason))
	}
	e.book.Plan = batch.plan
	if err := e.save(ctx); err != nil {
		return err
	}
	if err := e.publish(ctx, batch.msgs); err != nil {
		return err
	}
	e.figures.enriched(len(batch.msgs), batch.lag)
	return nil
}

// beat is the heartbeat: the record is saved, if the source still is the one it is about.
func (e *Enricher) beat(ctx context.Context) error {
	if time.Since(e.book.written) < heartbeat/2 {
		return nil
	}
	if err := e.sameSource(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := e.save(ctx); err != nil {
		return err
	}
	if !e.starved {
		e.worked()
	}
	return nil
}

// sameSource reports whether the source still is the one of the record. The error wraps
// errSource.
func (e *Enricher) sameSource(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	info, err := e.source.Info(ctx)
	if err == nil && !info.Created.Equal(e.book.Source) {
		err = errors.New("it was made anew")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	return nil
}

// save writes the record. It is done even if ctx has ended, within stepTimeout.
func (e *Enricher) save(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	return e.book.save(ctx)
}

// publish publishes the messages of the record's plan, even if ctx has ended.
func (e *Enricher) publish(ctx context.Context, msgs []*nats.Msg) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stepTimeout)
	defer cancel()
	if len(msgs) > 0 {
		last, err := publishBatch(ctx, e.cfg.Conn, msgs, e.book.Last)
		if err != nil {
			return fmt.Errorf("publish to the target: %w", err)
		}
		e.book.Last = last
	}
	e.book.Done, e.book.Plan = e.book.Plan.Through, nil
	e.worked()
	return nil
}

// bury publishes an event that cannot be stamped as a dead letter. Without a subject for
// those it is an error: then nothing may pass the event.
func (e *Enricher) bury(ctx context.Context, d deadLetter) error {
	reason := fmt.Errorf("event %s on %s: %w", origin(e.cfg.From, d.event.seq), d.event.subject, d.reason)
	if e.cfg.DeadLetter == "" {
		return fmt.Errorf("%w; there is no dead-letter subject, so nothing behind it is enriched", reason)
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var in []jetstream.PublishOpt
	if e.deadInTarget { // there one that comes late must not pass for an event of a plan
		in = append(in, jetstream.WithExpectLastSequence(e.book.Last))
	}
	ack, err := e.cfg.JetStream.PublishMsg(ctx, e.stamper.deadLetter(e.cfg.DeadLetter, d.event, reason, e.limit), in...)
	if err != nil {
		return fmt.Errorf("publish the dead letter of %w: %w", reason, err)
	}
	if e.deadInTarget && !ack.Duplicate {
		e.book.Last = ack.Sequence
	}
	e.figures.dead.Add(1)
	e.log.Debug("dead letter", zap.Error(reason))
	return nil
}
