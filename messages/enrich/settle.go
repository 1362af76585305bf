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
	var source *jetstream.StreamInfo
	if !e.record.exists() {
		source, err = e.beginRecord(ctx, info.State.LastSeq)
	} else if source, err = e.identifySource(ctx); err == nil {
		e.record.SourceCreated = source.Created
		err = e.settle(ctx, info)
	}
	if err != nil {
		return e.confirm(ctx, err)
	}
	e.record.SourceCreated, e.record.TargetCreated = source.Created, info.Created
	e.stamper.chain = e.record.Chain
	e.record.adopt(e.cfg.settings())
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
// enriched before, and the record was lost: then the position is unknown. It
// returns the state of the source.
func (e *Enricher) beginRecord(ctx context.Context, last uint64) (*jetstream.StreamInfo, error) {
	if last > 0 {
		return nil, e.undecided("stream %s has no enrichment record, but is at sequence %d", e.targetName(), last)
	}
	source, err := e.source.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("source stream: %w", err)
	}
	r := enrichmentRecord{settings: e.cfg.settings(), Chain: e.newChain(), Done: max(source.State.FirstSeq, 1) - 1}
	r.Time, err = e.timeOf(ctx, r.Done, source.State)
	e.record.enrichmentRecord = r
	return source, err
}

// settle moves the record on through the planned events that have arrived in
// the target.
func (e *Enricher) settle(ctx context.Context, target *jetstream.StreamInfo) error {
	r, last := &e.record, target.State.LastSeq
	if last < r.Last {
		return e.undecided("stream %s ends at sequence %d, was at %d", e.targetName(), last, r.Last)
	}
	if err := e.identifyTarget(ctx, target); err != nil {
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
// message shows whether that happened. If it is gone, the position is unknown.
func (e *Enricher) arrivedThrough(ctx context.Context, last uint64) (arrival, error) {
	r := &e.record
	var expected uint64
	if planned := r.planned(); !r.Doubt && last-r.Last <= uint64(len(planned)) {
		expected = planned[last-r.Last-1]
	}
	msg, err := streamread.At(ctx, e.cfg.JetStream, e.targetName(), last)
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
