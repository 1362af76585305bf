package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
)

// takeOver determines the position of the enrichment, and makes this enricher
// its owner. The rest of the plans in the record is then to be published.
func (e *Enricher) takeOver(ctx context.Context) error {
	info, err := e.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	e.readLimits(info.Config)
	last := info.State.LastSeq
	if !e.record.exists() {
		err = e.beginRecord(ctx, last)
	} else if err = e.identifySource(ctx); err == nil {
		err = e.settle(ctx, last)
	}
	if err != nil {
		return e.confirm(ctx, err)
	}
	e.stamper.chain = e.record.Chain
	if e.record.Installation == "" {
		e.record.Installation = e.cfg.Installation
	}
	e.record.Owner = e.instance
	return e.saveRecord(ctx)
}

// confirm returns the error, unless the record has changed since it was read:
// then the error proves nothing.
func (e *Enricher) confirm(ctx context.Context, err error) error {
	revision := e.record.revision
	if !errors.Is(err, ErrUndecided) {
		return err
	}
	if loadErr := e.loadRecord(ctx); loadErr != nil {
		return loadErr
	}
	if e.record.revision != revision {
		return errRecordMoved
	}
	return err
}

// beginRecord begins an enrichment. A target that has had messages was perhaps
// enriched before, and the record was lost: then the position is unknown.
func (e *Enricher) beginRecord(ctx context.Context, last uint64) error {
	if last > 0 {
		return e.undecided("stream %s has no enrichment record, but is at sequence %d", e.targetName(), last)
	}
	source, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	e.record.enrichmentRecord = enrichmentRecord{settings: e.cfg.settings(), Chain: e.newChain(), Done: max(source.State.FirstSeq, 1) - 1}
	return nil
}

// settle moves the record on through the planned events that have arrived in
// the target, which ends at sequence last.
func (e *Enricher) settle(ctx context.Context, last uint64) error {
	r := &e.record
	if last < r.Last {
		return e.undecided("stream %s ends at sequence %d, was at %d", e.targetName(), last, r.Last)
	}
	if err := e.identifyTarget(ctx); err != nil {
		return err
	}
	done, at := r.Done, r.Time
	if last > r.Last {
		arrived, err := e.arrivedThrough(ctx, last)
		if err != nil {
			return err
		}
		done, at, r.AtLast = arrived.seq, arrived.time, 0
		if arrived.at == last {
			r.AtLast = done
		}
	}
	r.advance(done, at, last)
	return nil
}

// arrival is an event that has arrived in the target.
type arrival struct {
	seq  uint64    // in the source
	time time.Time // when the source stored it
	at   uint64    // its sequence in the target
}

// arrivedThrough returns the event through which the source has arrived in the
// target, whose last sequence has changed. The plans name the event at each
// sequence, unless another publisher has written to the target. The last
// message shows whether that happened. If it is gone, the target was written by
// enrichers only, or the position is unknown.
func (e *Enricher) arrivedThrough(ctx context.Context, last uint64) (arrival, error) {
	r := &e.record
	var expected uint64
	if planned := r.planned(); !r.Doubt && last-r.Last <= uint64(len(planned)) {
		expected = planned[last-r.Last-1]
	}
	msg, err := streamread.At(ctx, e.cfg.JetStream, e.targetName(), last)
	if errors.Is(err, jetstream.ErrMsgNotFound) && expected > 0 {
		at, err := e.timeOf(ctx, expected)
		return arrival{expected, at, last}, err // consumed and removed already
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return arrival{}, fmt.Errorf("read the target: %w", err)
	}
	if o := parseOrigin(msg.Header); expected == o.seq && err == nil {
		proves, err := e.proves(ctx, last, &o)
		if proves || err != nil {
			return arrival{expected, o.time, last}, err // perhaps a dead letter
		}
	}
	return e.searchTarget(ctx, last)
}

// searchTarget reads the messages of the target behind Last, backwards, until
// it finds an enriched event: all events before it have arrived as well.
func (e *Enricher) searchTarget(ctx context.Context, last uint64) (found arrival, err error) {
	r := &e.record
	found = arrival{seq: r.Done, time: r.Time}
	err = e.readBack(ctx, last, r.Last, func(at uint64, msg *event) (bool, error) {
		if msg == nil {
			return false, e.undecided("sequence %d of stream %s is gone, and no message after %d shows which events arrived", at, e.targetName(), r.Last)
		}
		o := parseOrigin(msg.Header)
		proves, err := e.proves(ctx, at, &o)
		if proves = proves && !o.letter; proves {
			found = arrival{o.seq, o.time, at}
		}
		return proves, err
	})
	return found, err
}

// readBack reads the target backwards, from sequence last down to the message
// behind end, until visit returns enough. A missing message is nil.
func (e *Enricher) readBack(ctx context.Context, last, end uint64, visit func(at uint64, msg *event) (enough bool, err error)) error {
	for last > end {
		seqs := make([]uint64, 0, maxBatch)
		for ; last > end && len(seqs) < maxBatch; last-- {
			seqs = append(seqs, last)
		}
		msgs, err := streamread.Many(ctx, e.cfg.JetStream, e.targetName(), seqs)
		if err != nil {
			return fmt.Errorf("read the target: %w", err)
		}
		for i, msg := range msgs {
			if enough, err := visit(seqs[i], msg); enough || err != nil {
				return err
			}
		}
	}
	return nil
}
