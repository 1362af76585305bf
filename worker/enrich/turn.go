package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/store/jetstream/leader"
)

const (
	// turnLength is how long an owner goes on before it hands over to one that waits.
	turnLength = time.Second

	// heartbeat is how often an owner saves the record, at least.
	heartbeat = time.Second

	// takeover is how long a record stands still until its owner is taken to be dead.
	takeover = 3 * time.Second

	// stepTimeout bounds one exchange with the server.
	stepTimeout = 5 * time.Second
)

// wait returns when it is this enricher's turn, with the record loaded but not yet taken.
func (e *Enricher) wait(ctx context.Context) error {
	var seen uint64
	since := time.Now()
	for {
		if err := e.load(ctx); err != nil {
			return err
		}
		if e.book.revision != seen {
			seen, since = e.book.revision, time.Now()
		}
		if e.book.Owner == "" || e.book.Owner == e.instance || time.Since(since) >= takeover {
			return nil
		}
		if err := e.askForTurn(ctx); err != nil {
			return err
		}
	}
}

// load reads the record, within stepTimeout. It has to be one of the same events.
func (e *Enricher) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := e.book.load(ctx); err != nil {
		return err
	}
	return e.sameAs(e.book.record)
}

// askForTurn asks the owner for the next turn and waits for the answer, for a heartbeat
// at most: whether it was given, the record says.
func (e *Enricher) askForTurn(ctx context.Context) error {
	began := time.Now()
	request, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	_, err := e.cfg.Conn.RequestWithContext(request, e.cfg.Prefix.Turn(e.name), []byte(e.instance))
	if errors.Is(err, nats.ErrNoResponders) { // the owner is away
		select {
		case <-ctx.Done():
		case <-time.After(heartbeat/4 - time.Since(began)):
		}
	}
	return ctx.Err()
}

// turn takes the turn, and enriches until it is handed over, ctx ends, or something fails.
func (e *Enricher) turn(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	waiting := make(chan *nats.Msg, 16)
	sub, err := e.cfg.Conn.ChanSubscribe(e.cfg.Prefix.Turn(e.name), waiting)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	reader, err := newReader(ctx, e.source, e.cfg.Filter, e.book.Done)
	if err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	defer reader.close()
	preparer := e.newPreparer(reader)
	defer preparer.close()
	e.figures.turns.Add(1)

	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	var next *nats.Msg // the latest that asked for the next turn
	tried := false     // a batch was; a turn that ends before helps nobody
	for began := time.Now(); ; {
		select {
		case next = <-waiting:
		case batch := <-preparer.out:
			err = e.step(ctx, batch)
			tried = true
		case <-alive.C:
			err = e.beat(ctx)
		case <-ctx.Done():
			return e.handOver(ctx, next)
		}
		if err != nil {
			return err
		}
		if tried && time.Since(began) >= turnLength && next != nil {
			return e.handOver(ctx, next)
		}
	}
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
		e.name, r.Filter, r.To, e.cfg.Filter, e.cfg.To, e.name, e.cfg.Prefix.EnrichBucket())
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
	if err := e.recognised(context.WithoutCancel(ctx)); err != nil {
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

// recognised reports whether the source still is the one of the record. The error wraps
// errSource.
func (e *Enricher) recognised(ctx context.Context) error {
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

// handOver ends the turn: the next owner is the one that asked last, or nobody.
func (e *Enricher) handOver(ctx context.Context, next *nats.Msg) error {
	e.book.Owner = ""
	if next != nil && len(next.Data) == len(e.instance) {
		e.book.Owner = string(next.Data)
	}
	if err := e.save(ctx); err != nil || next == nil {
		return err
	}
	return next.Respond(nil)
}
