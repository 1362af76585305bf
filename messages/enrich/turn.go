package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/pause"
)

const (
	// turnLength is how long an owner goes on before it hands the turn to an enricher that
	// waits for it.
	turnLength = time.Second

	// heartbeat is the longest time between two saves of the record by its owner.
	heartbeat = time.Second

	// ownerTimeout is how long a record may stay unchanged before its owner is taken to be
	// dead.
	ownerTimeout = 3 * time.Second

	// exchangeTimeout bounds one exchange with the server.
	exchangeTimeout = 5 * time.Second
)

// awaitTurn returns when it is this enricher's turn, with the record loaded but not yet
// claimed.
func (e *Enricher) awaitTurn(ctx context.Context) error {
	var seen uint64
	since := time.Now()
	for {
		if err := e.loadRecord(ctx); err != nil {
			return err
		}
		if e.record.revision != seen {
			seen, since = e.record.revision, time.Now()
		}
		if e.record.Owner == "" || e.record.Owner == e.instance || time.Since(since) >= ownerTimeout {
			return nil
		}
		if err := e.askForTurn(ctx); err != nil {
			return err
		}
	}
}

// askForTurn asks the owner for the next turn and waits for the answer, for a heartbeat at
// most. Whether the turn was given is written in the record.
func (e *Enricher) askForTurn(ctx context.Context) error {
	began := time.Now()
	request, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	_, err := e.cfg.Conn.RequestWithContext(request, turnSubject(e.cfg.Prefix, e.name), []byte(e.instance))
	if errors.Is(err, nats.ErrNoResponders) { // the owner is away
		pause.For(ctx, heartbeat/4-time.Since(began))
	}
	return ctx.Err()
}

// runTurn takes over the record, and enriches until the turn is handed over, ctx ends, or
// something fails.
func (e *Enricher) runTurn(ctx context.Context) error {
	if err := e.takeOver(ctx); err != nil {
		return err
	}
	waiting := make(chan *nats.Msg, 16)
	sub, err := e.cfg.Conn.ChanSubscribe(turnSubject(e.cfg.Prefix, e.name), waiting)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	reader, err := newReader(ctx, e.source, e.cfg.Filter, e.record.Done)
	if err != nil {
		return fmt.Errorf("%w: %w", errSource, err)
	}
	defer reader.close()
	preparer := e.newPreparer(reader)
	defer preparer.close()
	e.figures.turns.Add(1)

	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	var next *nats.Msg // the latest request for the next turn
	tried := false     // whether a batch was tried; a turn that ends before that helps nobody
	for began := time.Now(); ; {
		select {
		case next = <-waiting:
		case batch := <-preparer.out:
			err = e.enrichBatch(ctx, batch)
			tried = true
		case <-alive.C:
			err = e.saveHeartbeat(ctx)
		case <-ctx.Done():
			return e.handOverTurn(ctx, next)
		}
		if err != nil {
			return err
		}
		if tried && time.Since(began) >= turnLength && next != nil {
			return e.handOverTurn(ctx, next)
		}
	}
}

// saveHeartbeat saves the record if that is due, and if the source still is the one that
// the record is about.
func (e *Enricher) saveHeartbeat(ctx context.Context) error {
	if time.Since(e.record.written) < heartbeat/2 {
		return nil
	}
	if err := e.checkSameSource(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := e.saveRecord(ctx); err != nil {
		return err
	}
	if !e.starved {
		e.reportSuccess()
	}
	return nil
}

// handOverTurn ends the turn: the next owner is the enricher that asked last, or nobody.
func (e *Enricher) handOverTurn(ctx context.Context, next *nats.Msg) error {
	e.record.Owner = ""
	if next != nil && len(next.Data) == len(e.instance) {
		e.record.Owner = string(next.Data)
	}
	if err := e.saveRecord(ctx); err != nil || next == nil {
		return err
	}
	return next.Respond(nil)
}
