package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Resume decides that all events of the source through the sequence after count
// as enriched, and no others. It is for an enrichment whose position has no
// proof, and for changed settings. It refuses what the streams contradict, with
// an error that wraps [ErrConfig]. The error also wraps [ErrUnproven] if
// messages are gone that could contradict; unproven accepts that. Running
// enrichers continue from there, if their settings are those of cfg. Others
// stop.
func Resume(ctx context.Context, cfg Config, after uint64, unproven bool) error {
	e, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	for {
		// A stopped enricher keeps saving the record, so retry if it did.
		if err := e.resume(ctx, after, unproven); !errors.Is(err, errRecordMoved) {
			return err
		}
	}
}

func (e *Enricher) resume(ctx context.Context, after uint64, unproven bool) error {
	if err := e.readRecord(ctx); err != nil && !errors.Is(err, errUnreadable) {
		return err
	}
	source, err := e.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	target, err := e.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	if last := source.State.LastSeq; after > last {
		return configError("stream %s ends at sequence %d, cannot resume after %d", e.cfg.From, last, after)
	}
	seq, gone, err := e.provenThrough(ctx, target)
	switch {
	case err != nil:
		return err
	case after < seq:
		return configError("stream %s already has event %d of stream %s; resuming after %d would enrich events twice", e.targetName(), seq, e.cfg.From, after)
	case gone > 0 && !unproven: // it may have been such an event
		return fmt.Errorf("%w: %w: sequence %d of stream %s, after event %d of stream %s", ErrConfig, ErrUnproven, gone, e.targetName(), seq, e.cfg.From)
	}
	r := enrichmentRecord{
		settings: e.cfg.settings(), Chain: cmp.Or(e.record.Chain, e.newChain()), Last: target.State.LastSeq,
		Done:  max(after, max(source.State.FirstSeq, 1)-1), // events before the first are gone
		Doubt: true, SourceCreated: source.Created, TargetCreated: target.Created,
	}
	if r.Time, err = e.timeOf(ctx, r.Done, source.State); err != nil {
		return err
	}
	e.record.enrichmentRecord = r
	if err := e.saveRecord(ctx); err != nil {
		return err
	}
	e.log.Info("enrichment resumed", zap.Uint64("after", after))
	return nil
}

// provenThrough returns the last event of the source that is proven to be in
// the target, by messages there, of any chain and on any subject, or by the
// record. gone is the last missing message behind it, 0 if none is missing.
func (e *Enricher) provenThrough(ctx context.Context, target *jetstream.StreamInfo) (seq, gone uint64, err error) {
	first, err := e.firstFrom(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	end := uint64(0)
	if e.recordHolds(ctx, target) {
		seq, end = e.record.AtLast, e.record.Last
	}
	known := false
	kept := max(end, max(target.State.FirstSeq, 1)-1)
	err = e.readBack(ctx, target.State.LastSeq, kept, func(at uint64, msg *event) (bool, error) {
		if msg == nil {
			gone = max(gone, at)
			return false, nil
		}
		o := parseOrigin(msg.Header)
		if o.source != e.cfg.From || o.letter {
			return false, nil
		}
		_, err := e.checkEvent(ctx, o.seq, o.time)
		made := err == nil
		if made {
			seq = max(seq, o.seq)
		} else if errors.Is(err, ErrUndecided) {
			err = nil // the event is of another source of this name
		}
		// If it is older than all events of the source, so are all messages
		// before it in the target. A message without a chain proves nothing
		// about those before it.
		known = o.chain != "" && (made || first.Sequence == 0 || o.time.Before(first.Time))
		return known, err
	})
	if !known && gone == 0 && kept > end {
		gone = kept
	}
	return seq, gone, err
}

// recordHolds reports whether source and target are those of the record.
func (e *Enricher) recordHolds(ctx context.Context, target *jetstream.StreamInfo) bool {
	r := &e.record
	if r.From != e.cfg.From || r.AtLast == 0 || r.Last > target.State.LastSeq || e.identifyTarget(ctx, target) != nil {
		return false
	}
	_, err := e.identifySource(ctx)
	return err == nil
}
