package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
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

// askForTurn asks the owner for the next turn and waits for the answer, for a heartbeat
// at most: whether it was given, the record says.
func (e *Enricher) askForTurn(ctx context.Context) error {
	began := time.Now()
	request, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	_, err := e.cfg.Conn.RequestWithContext(request, turnSubject(e.cfg.Prefix, e.name), []byte(e.instance))
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
	sub, err := e.cfg.Conn.ChanSubscribe(turnSubject(e.cfg.Prefix, e.name), waiting)
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
