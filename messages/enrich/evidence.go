package enrich

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/streamread"
)

// newChain returns a chain, the name of all messages published under a new
// record.
func (e *Enricher) newChain() string { return e.targetName() + " " + nuid.Next() }

// proves reports whether a message behind Last, at that sequence of the target,
// proves that the event of its origin has arrived. A message that is not of
// this enrichment proves nothing. If it should not be there, the error wraps
// [ErrUndecided].
func (e *Enricher) proves(ctx context.Context, at uint64, o *origin) (proves bool, err error) {
	r := &e.record
	switch {
	case o.source == "", o.chain == "" && o.source != e.cfg.From, o.letter && o.chain != r.Chain:
		return false, nil // another publisher's, or a dead letter of another enrichment
	case o.chain != r.Chain, o.source != e.cfg.From:
		return false, e.undecided("sequence %d of stream %s has event %s of enrichment %q, not %q: only one may write to a stream",
			at, e.targetName(), formatOrigin(o.source, o.seq), o.chain, r.Chain)
	case o.seq <= r.Done:
		return false, nil
	}
	err = e.checkSource(ctx, o.seq, o.time)
	return err == nil, err
}

// identifyTarget checks that the target is that of the record: it was created
// then, and the message at Last is the recorded message, or is gone. A cluster
// gives a restored stream a new date: there the message has to be older than the
// stream.
func (e *Enricher) identifyTarget(ctx context.Context, target *jetstream.StreamInfo) error {
	r := &e.record
	restored := false
	if r.AtLast > 0 {
		msg, err := streamread.At(ctx, e.cfg.JetStream, e.targetName(), r.Last)
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("read the target: %w", err)
		}
		o := parseOrigin(msg.Header)
		if err == nil && (o.chain != r.Chain || o.source != e.cfg.From || o.seq != r.AtLast || o.seq == r.Done && !o.time.Equal(r.Time)) {
			return e.undecided("sequence %d of stream %s was event %d, now another message", r.Last, e.targetName(), r.AtLast)
		}
		restored = err == nil && msg.Time.Before(target.Created)
	}
	if !isCreated(r.TargetCreated, target) && !restored {
		return e.recreated(r.TargetCreated, target)
	}
	return nil
}

// isCreated reports whether a stream was created at that time.
func isCreated(at time.Time, stream *jetstream.StreamInfo) bool { return at.Equal(stream.Created) }

func (e *Enricher) recreated(at time.Time, stream *jetstream.StreamInfo) error {
	return e.undecided("stream %s was created again, at %s; the enriched one was created at %s", stream.Config.Name,
		stream.Created.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano))
}

// identifySource checks that the source is that of the record, and returns its
// state. A cluster gives a restored stream a new date: there it has to have the
// event of the recorded time.
func (e *Enricher) identifySource(ctx context.Context) (*jetstream.StreamInfo, error) {
	r := &e.record
	source, err := e.checkEvent(ctx, r.Done, r.Time)
	if err != nil || isCreated(r.SourceCreated, source) {
		return source, err
	}
	last, err := e.firstFrom(ctx, r.Done)
	if err == nil && (last.Sequence == 0 || !last.Time.Equal(r.Time)) {
		err = e.recreated(r.SourceCreated, source)
	}
	return source, err
}

// checkSource checks that the source is that of the record, and has stored an
// event as for checkEvent. Only the owner may call it.
func (e *Enricher) checkSource(ctx context.Context, seq uint64, at time.Time) error {
	source, err := e.checkEvent(ctx, seq, at)
	if err == nil && !isCreated(e.record.SourceCreated, source) {
		err = e.recreated(e.record.SourceCreated, source)
	}
	return err
}

// checkEvent checks that the source has stored an event with that sequence at
// that time, and returns its state. The event is there; or it is gone, and the
// remaining events before it are not younger, and those after it not older.
// Otherwise the error wraps [ErrUndecided].
func (e *Enricher) checkEvent(ctx context.Context, seq uint64, at time.Time) (*jetstream.StreamInfo, error) {
	info, err := e.source.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("source stream: %w", err)
	}
	if info.State.LastSeq < seq {
		return info, e.undecided("stream %s ends at sequence %d, but was enriched through %d", e.cfg.From, info.State.LastSeq, seq)
	}
	if at.IsZero() {
		return info, nil
	}
	before, after, err := e.around(ctx, seq)
	if err != nil {
		return info, err
	}
	if before.Sequence > 0 && before.Time.After(at) {
		after = before
	} else if after.Sequence == 0 || !after.Time.Before(at) {
		return info, nil
	}
	return info, e.undecided("event %d of stream %s is from %s, but event %d was from %s when enriched", after.Sequence, e.cfg.From,
		after.Time.Format(time.RFC3339Nano), seq, at.UTC().Format(time.RFC3339Nano))
}

// timeOf returns a time that fits the event with that sequence, as for
// checkEvent: its own, if it is there. In an empty source it is that of the last
// event, zero if there never was any.
func (e *Enricher) timeOf(ctx context.Context, seq uint64, source jetstream.StreamState) (time.Time, error) {
	before, after, err := e.around(ctx, seq)
	switch {
	case before.Sequence > 0:
		return before.Time, err
	case after.Sequence > 0:
		return after.Time, err
	}
	return source.LastTime, err
}

// around returns the last event of the source with at most that sequence, and
// the first with at least that sequence. Their sequence is 0 if there is none.
func (e *Enricher) around(ctx context.Context, seq uint64) (before, after event, err error) {
	if after, err = e.firstFrom(ctx, seq); err != nil || after.Sequence == seq {
		return after, after, err
	}
	for low, high := uint64(1), seq; low < high; {
		middle := low + (high-low)/2
		found, err := e.firstFrom(ctx, middle)
		switch {
		case err != nil:
			return before, after, err
		case found.Sequence == 0 || found.Sequence >= seq:
			high = middle
		default:
			before, low = found, found.Sequence+1
		}
	}
	return before, after, nil
}

// firstFrom returns the first event of the source with that sequence or a later
// one, on any subject.
func (e *Enricher) firstFrom(ctx context.Context, seq uint64) (event, error) {
	msg, err := streamread.Next(ctx, e.cfg.JetStream, e.cfg.From, ">", max(seq, 1))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return event{}, nil
	}
	if err != nil {
		return event{}, fmt.Errorf("read the source: %w", err)
	}
	return msg, nil
}
