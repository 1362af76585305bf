package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
)

// takeOver finds out where the enrichment is, and makes this enricher its owner. What is
// left of the plans in the record is then to be published.
func (e *Enricher) takeOver(ctx context.Context) error {
	info, err := e.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	e.readLimits(info.Config)
	last := info.State.LastSeq
	if e.record.revision == 0 {
		err = e.beginRecord(ctx, last)
	} else if err = e.identifySource(ctx); err == nil {
		err = e.settle(ctx, last)
	}
	if err != nil {
		return e.confirm(ctx, err)
	}
	if e.record.Installation == "" {
		e.record.Installation = e.cfg.Installation
	}
	e.record.Owner = e.instance
	return e.saveRecord(ctx)
}

// confirm returns the error, unless the record has been moved on since it was read: then
// what was found proves nothing.
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

// beginRecord begins an enrichment. A target that has had messages was perhaps enriched
// before, and the record was lost: then nobody knows how far.
func (e *Enricher) beginRecord(ctx context.Context, last uint64) error {
	if last > 0 {
		return e.undecided("there is no record of the enrichment to stream %s, but the stream has had %d messages", e.targetName(), last)
	}
	source, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	e.record.record = record{settings: e.cfg.settings(), Done: max(source.State.FirstSeq, 1) - 1}
	return nil
}

// identifySource makes sure that the source is that of the record: the event that the record
// names is there, with its time; or all events through it are gone, and what comes next is
// not older.
func (e *Enricher) identifySource(ctx context.Context) error {
	info, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	r, s := &e.record, info.State
	if s.LastSeq < r.Done {
		return e.undecided("stream %s ends at sequence %d, but the events through %d were enriched", e.cfg.From, s.LastSeq, r.Done)
	}
	if r.Time.IsZero() {
		return nil
	}
	at, err := e.sourceTime(ctx, r.Done)
	switch {
	case err != nil:
		return err
	case at.IsZero() && s.FirstSeq <= r.Done:
		return e.undecided("event %d of stream %s, which was enriched last, is gone, but not all before it are", r.Done, e.cfg.From)
	case at.IsZero() && s.Msgs > 0 && s.FirstTime.Before(r.Time):
		return e.undecided("stream %s begins with an event that is older than the one that was enriched last", e.cfg.From)
	case !at.IsZero() && !at.Equal(r.Time):
		return e.undecided("event %d of stream %s is of %s, but the one that was enriched was of %s", r.Done, e.cfg.From,
			at.Format(time.RFC3339Nano), r.Time.Format(time.RFC3339Nano))
	}
	return nil
}

// sourceTime returns when an event of the source was stored, zero if it is not there.
func (e *Enricher) sourceTime(ctx context.Context, seq uint64) (time.Time, error) {
	if seq == 0 {
		return time.Time{}, nil
	}
	msg, err := leader.At(ctx, e.cfg.JetStream, e.cfg.From, seq)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, fmt.Errorf("read the source: %w", err)
	}
	return msg.Time, nil
}

// settle finds out what became of the plans in the record, and moves the record on as far as
// their events have arrived in the target, which ends at sequence last.
func (e *Enricher) settle(ctx context.Context, last uint64) error {
	r := &e.record
	if last < r.Last {
		return e.undecided("stream %s ends at sequence %d, but there was a sequence %d", e.targetName(), last, r.Last)
	}
	done := r.Done
	if last > r.Last {
		var err error
		if done, err = e.arrivedThrough(ctx, last); err != nil {
			return err
		}
	}
	at := r.Time
	if done > r.Done {
		found, err := e.sourceTime(ctx, done)
		if err != nil {
			return err
		}
		if !found.IsZero() {
			at = found
		}
	}
	r.advance(done, at, last)
	return nil
}

// arrivedThrough returns the source sequence through which events have arrived in the
// target, whose last sequence has changed. The plans say which event is at which sequence,
// unless somebody else has written to the target. Whether somebody has is said by the last
// message. If it is gone, the target was written by enrichers only, or nobody can tell.
func (e *Enricher) arrivedThrough(ctx context.Context, last uint64) (uint64, error) {
	r := &e.record
	var expected uint64
	if planned := r.planned(); !r.Doubt && last-r.Last <= uint64(len(planned)) {
		expected = planned[last-r.Last-1]
	}
	msg, err := leader.At(ctx, e.cfg.JetStream, e.targetName(), last)
	if errors.Is(err, jetstream.ErrMsgNotFound) && expected > 0 {
		return expected, nil // consumed and removed already
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, fmt.Errorf("read the target: %w", err)
	}
	if expected > 0 && msg.Header.Get(HeaderSource) == formatOrigin(e.cfg.From, expected) {
		return expected, nil // perhaps a dead letter
	}
	return e.searchTarget(ctx, last)
}

// searchTarget reads the messages of the target behind Last, backwards, until one is an
// enriched event: all events before it have arrived as well.
func (e *Enricher) searchTarget(ctx context.Context, last uint64) (uint64, error) {
	for r := e.record; last > r.Last; {
		seqs := make([]uint64, 0, maxBatch)
		for ; last > r.Last && len(seqs) < maxBatch; last-- {
			seqs = append(seqs, last)
		}
		msgs, err := leader.Many(ctx, e.cfg.JetStream, e.targetName(), seqs)
		if err != nil {
			return 0, fmt.Errorf("read the target: %w", err)
		}
		for i, msg := range msgs {
			if msg == nil {
				return 0, e.undecided("sequence %d of stream %s is gone, and what is left behind %d does not say which events arrived", seqs[i], e.targetName(), r.Last)
			}
			if from, ours := parseOrigin(e.cfg.From, msg.Header); ours && from > r.Done {
				return from, nil
			}
		}
	}
	return e.record.Done, nil
}
