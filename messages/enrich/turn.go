package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
)

// ownerTimeout is the time after which an unchanged record means that its owner
// is dead.
const ownerTimeout = 3 * time.Second

// timers are an enricher's waits. Tests have shorter timers.
type timers struct {
	// An owner hands the turn to a waiting enricher after this time.
	turnLength time.Duration
	// The longest time between two saves of the record by its owner.
	heartbeat       time.Duration
	ownerTimeout    time.Duration
	exchangeTimeout time.Duration // bounds an exchange with the server
	idsTimeout      time.Duration // a longer request for IDs fails

	firstPause, maxPause time.Duration // between retries during an outage
	// The interval of measuring the lag, while no batch does.
	measureEvery time.Duration
}

var defaultTimers = timers{
	turnLength: time.Second, heartbeat: time.Second, ownerTimeout: ownerTimeout, exchangeTimeout: 5 * time.Second, idsTimeout: 2 * time.Second,
	firstPause: 100 * time.Millisecond, maxPause: 2 * time.Second,
	measureEvery: time.Second,
}

// awaitTurn returns when it is this enricher's turn, with the record loaded but
// not yet claimed.
func (e *Enricher) awaitTurn(ctx context.Context) error {
	var seen uint64
	since := time.Now()
	for {
		if err := e.loadRecord(ctx); err != nil {
			return err
		}
		if e.record.revision != seen {
			if seen > 0 { // its owner is alive
				e.reportIdle(ctx)
			}
			seen, since = e.record.revision, time.Now()
		}
		if e.record.Owner == "" || e.record.Owner == e.instance || time.Since(since) >= e.cfg.timers.ownerTimeout {
			return nil
		}
		if err := e.requestTurn(ctx); err != nil {
			return err
		}
	}
}

// requestTurn requests the next turn from the owner and waits for the reply,
// for a heartbeat at most. The record shows whether the turn was given.
func (e *Enricher) requestTurn(ctx context.Context) error {
	began := time.Now()
	request, cancel := context.WithTimeout(ctx, e.cfg.timers.heartbeat)
	defer cancel()
	_, err := e.cfg.Conn.RequestWithContext(request, turnSubject(e.cfg.Prefix, e.name), []byte(e.instance))
	if errors.Is(err, nats.ErrNoResponders) { // no owner is subscribed
		pause.For(ctx, e.cfg.timers.heartbeat/4-time.Since(began))
	}
	return ctx.Err()
}

// turn is the period in which an enricher is the owner of the record. One batch
// at a time is in flight to the target. The plan of the next batch is saved
// during that time.
type turn struct {
	*Enricher
	flight *batch     // in flight
	landed chan error // the outcome of flight
	// Saved, and published as soon as flight has landed.
	ready *batch
	stuck bool // the next batch cannot be prepared
	// The turn ends even without a request for it: the next turn reads the
	// limits again.
	renew bool
}

// runTurn takes over the record, and enriches until the turn is handed over,
// ctx ends, or something fails.
func (e *Enricher) runTurn(ctx context.Context) error {
	if err := e.takeOver(ctx); err != nil {
		return err
	}
	from := e.record.Done
	if n := len(e.record.Plans); n > 0 {
		from = e.record.Plans[n-1].Through
	}
	tail, err := streamread.OpenTail(ctx, e.cfg.JetStream, e.source, e.cfg.Filter, from+1)
	if err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	defer tail.Close()
	if err := e.checkSource(ctx, e.record.Done, e.record.Time); err != nil { // that of the tail
		return e.confirm(ctx, err)
	}
	preparer := e.newPreparer(tail, from)
	defer preparer.close()
	e.figures.update(func() { e.figures.owner, e.figures.counts.Turns = true, e.figures.counts.Turns+1 })
	defer e.figures.update(func() { e.figures.owner = false })
	t := &turn{Enricher: e, landed: make(chan error, 1)}
	// The next owner settles its outcome.
	defer func() { _ = t.await() }()
	return t.run(ctx, preparer)
}

func (t *turn) run(ctx context.Context, preparer *preparer) (err error) {
	waiting := make(chan *nats.Msg, 16)
	sub, err := t.cfg.Conn.ChanSubscribe(turnSubject(t.cfg.Prefix, t.name), waiting)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	alive := time.NewTicker(t.cfg.timers.heartbeat)
	defer alive.Stop()
	var next *nats.Msg // the latest request for the next turn
	// A batch was tried; a turn that ends before that gains nothing.
	tried := false
	for began := time.Now(); err == nil; {
		batches := preparer.out
		if t.ready != nil {
			batches = nil
		}
		select {
		case next = <-waiting:
		case b := <-batches:
			err = t.planBatch(ctx, &b)
			tried = true
		case err = <-t.landed:
			err = t.land(err)
		case <-alive.C:
			if err = t.saveRecord(ctx); err == nil {
				t.reportIdle(ctx)
			}
			if err == nil && t.hasOtherStreams(ctx) {
				return t.handOver(ctx, next) // the next turn stops
			}
		case <-ctx.Done():
			return t.handOver(ctx, next)
		}
		if err == nil && tried && time.Since(began) >= t.cfg.timers.turnLength && (next != nil || t.renew) {
			return t.handOver(ctx, next)
		}
	}
	return err
}

// hasOtherStreams reports whether source or target were created again. A stream
// that does not answer may still be the same.
func (t *turn) hasOtherStreams(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.timers.heartbeat)
	defer cancel()
	source, sourceErr := t.source.Info(ctx)
	target, targetErr := t.target.Info(ctx)
	return sourceErr == nil && !isCreated(t.record.SourceCreated, source) ||
		targetErr == nil && !isCreated(t.record.TargetCreated, target)
}

// planBatch saves the plan of a prepared batch, and publishes the batch if none
// is in flight.
func (t *turn) planBatch(ctx context.Context, b *batch) error {
	switch {
	case errors.Is(b.err, errOtherPlan):
		return t.dropPlans(ctx, b.err)
	case b.ended:
		return b.err
	}
	t.renew = errors.Is(b.err, errUnstampable)
	if t.stuck = b.err != nil; t.stuck {
		t.reportFailure(b.err)
		return nil
	}
	if !b.saved {
		t.record.Plans = append(t.record.Plans, b.plan)
		if err := t.saveRecord(ctx); err != nil {
			return err
		}
	}
	t.ready = b
	return t.launch()
}

// dropPlans gives up the plans in the record. A late owner may still publish
// messages of them. From now on the headers in the target decide, until a batch
// of a new plan is in.
func (t *turn) dropPlans(ctx context.Context, cause error) error {
	if err := t.await(); err != nil {
		return err
	}
	t.log.Warn("planned batch changed; replanning", zap.Uint64("behind", t.record.Done), zap.Error(cause))
	t.record.Plans, t.record.Doubt = nil, true
	return errors.Join(errRecordMoved, t.saveRecord(ctx))
}

// launch publishes the batch that is ready unless another is in flight. It
// continues even if the turn ends, for twice exchangeTimeout at most.
func (t *turn) launch() error {
	if t.flight != nil || t.ready == nil {
		return nil
	}
	t.flight, t.ready = t.ready, nil
	if len(t.flight.msgs) == 0 {
		return t.land(nil)
	}
	msgs, last, publisher, within := t.flight.msgs, t.record.Last, t.publisher, 2*t.cfg.timers.exchangeTimeout
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		t.landed <- publisher.publish(ctx, msgs, last)
	}()
	return nil
}

// land advances the record, in memory, once a batch has been published.
func (t *turn) land(err error) error {
	b := t.flight
	t.flight = nil
	if t.publisher.adapt(err); err != nil {
		return fmt.Errorf("publish to the target: %w", err)
	}
	r := &t.record
	if len(b.msgs) > 0 {
		r.Doubt = false // no message of an older plan can follow this batch
		r.AtLast = b.plan.last()
	}
	r.Last += uint64(len(b.msgs))
	r.Done, r.Time, r.Plans = b.plan.Through, b.plan.Time, r.Plans[1:]
	t.figures.countBatch(b)
	if !t.stuck {
		t.reportSuccess()
	}
	return t.launch()
}

// await waits for the saved batches.
func (t *turn) await() error {
	for t.flight != nil {
		if err := t.land(<-t.landed); err != nil {
			return err
		}
	}
	return nil
}

// handOver ends the turn: the next owner is the enricher with the latest
// request, if any.
func (t *turn) handOver(ctx context.Context, next *nats.Msg) error {
	if err := t.await(); err != nil {
		return err
	}
	t.record.Owner = ""
	if next != nil && len(next.Data) == len(t.instance) {
		t.record.Owner = string(next.Data)
	}
	if err := t.saveRecord(ctx); err != nil || next == nil {
		return err
	}
	return next.Respond(nil)
}
