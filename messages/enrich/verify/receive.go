package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

// receive takes the next message of the target.
func (w *walk) receive(ctx context.Context, msg streamread.Message) error {
	if _, ours := w.letters.origin(msg); ours {
		return nil
	}
	takes := !w.v.checker.subjects || w.v.checker.template.takes(msg.Subject)
	seq, ok := origin(w.v.enrichment.From, msg.Header)
	switch {
	case !takes && ok && seq > w.v.cfg.After && !isLetter(msg):
		w.report.add(newArrival(msg, seq).finding(Foreign, "it is an event of this source, and no enricher with these settings publishes there"))
		return nil
	case !takes, !ok && isMarker(msg):
		w.report.Others++
		return nil
	case !ok:
		w.report.add(newArrival(msg, 0).finding(Foreign, "no enricher of this source put it there"))
		return nil
	}
	return w.receiveEvent(ctx, newArrival(msg, seq))
}

// isLetter reports whether a message is a dead letter of any enrichment.
func isLetter(msg streamread.Message) bool {
	return len(headerValues(msg.Header, enrich.HeaderError)) > 0
}

// isMarker reports whether the server put a message there in place of one that it removed.
func isMarker(msg streamread.Message) bool {
	return len(msg.Header[jetstream.MarkerReasonHeader]) > 0 && len(msg.Data) == 0
}

// receiveEvent takes the next event of the target. Only one that is in all respects what an enricher makes
// of its original passes over events of the source.
func (w *walk) receiveEvent(ctx context.Context, a arrival) error {
	if a.origin > w.report.Point {
		return w.receiveLater(ctx, a)
	}
	if a.origin <= w.v.cfg.After {
		if f, wrong := w.v.checker.checkID(a); wrong {
			w.report.add(f)
		}
		w.report.Before++
		w.addID(a, nil)
		return nil
	}
	if err := w.passDead(ctx, a.origin); err != nil { // proven, whatever comes now
		return err
	}
	original, err := w.original(ctx, a.origin)
	if err != nil {
		return err
	}
	w.addID(a, original)
	f, wrong := w.compare(original, a)
	switch {
	case wrong:
		w.report.add(f)
		if f.Kind != Unknown && a.origin > w.at {
			w.spoilt[a.origin] = true
		}
	case a.origin <= w.at:
		w.receiveLate(a)
	case original != nil:
		return w.receiveNext(ctx, *original, a)
	default:
		w.report.Orphans++
		if w.ahead == nil || w.ahead.Sequence > a.origin {
			w.passEvent(a)
		}
	}
	return nil
}

// original is the event of the source with that sequence, or nil if the source has removed it.
func (w *walk) original(ctx context.Context, seq uint64) (*streamread.Message, error) {
	if next, err := w.next(ctx); err != nil || next != nil && next.Sequence == seq {
		return next, err
	}
	if seq < w.v.source.CachedInfo().State.FirstSeq {
		return nil, nil
	}
	msg, err := streamread.At(ctx, w.js, w.v.enrichment.From, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return &msg, err
}

// receiveNext takes an event that is behind the latest one in order.
func (w *walk) receiveNext(ctx context.Context, original streamread.Message, a arrival) error {
	if err := w.passTo(ctx, a); err != nil {
		return err
	}
	w.passEvent(a)
	if w.ahead != nil && w.ahead.Sequence == a.origin {
		w.ahead = nil
	}
	delete(w.spoilt, a.origin)
	w.report.Events++
	w.account(original)
	if w.letters.has(original) {
		w.report.Both++
	}
	return nil
}

// passEvent notes that an event is where it should be in the target.
func (w *walk) passEvent(a arrival) {
	if e, _ := readEvidence(a.Header); !w.chains.next(e.chain) {
		w.report.add(a.finding(Foreign, "two enrichments write to this target: %q had ended when %q began", e.chain, w.chains.latest))
	}
	w.at = a.origin
	w.gaps.passEvent()
	w.v.passed.Store(w.at)
}

// addID notes the ID of an event, whose original may be nil.
func (w *walk) addID(a arrival, original *streamread.Message) {
	tag, ok := w.v.checker.template.tagOf(a.Subject)
	if !ok && original != nil {
		tag, ok = w.v.checker.template.tagFor(original.Subject), true
	}
	if ok && a.id != 0 {
		w.ids.add(tag, a.id)
	}
}

// account notes that an event of the source is where it should be.
func (w *walk) account(original streamread.Message) {
	if w.report.From == 0 {
		w.report.From = original.Sequence
	}
	w.report.Through, w.report.Stored = original.Sequence, original.Time
	w.v.passed.Store(original.Sequence)
}

// receiveLater takes an event that followed the point in the source. If the source does not
// reach as far, it never had the event.
func (w *walk) receiveLater(ctx context.Context, a arrival) error {
	info := w.v.source.CachedInfo()
	if a.origin > info.State.LastSeq {
		var err error
		if info, err = w.v.source.Info(ctx); err != nil {
			return fmt.Errorf("source stream: %w", err)
		}
	}
	if last := info.State.LastSeq; a.origin > last {
		w.report.add(a.finding(Unknown, "the source ends at %d", last))
		return nil
	}
	if next, err := w.next(ctx); next == nil || err != nil {
		return err // there is nothing that should have come before
	}
	original, err := w.original(ctx, a.origin)
	if err != nil || original == nil {
		return err
	}
	if _, wrong := w.compare(original, a); wrong {
		return nil
	}
	return w.passTo(ctx, a)
}

// receiveLate takes an event that is not behind the latest one in order.
func (w *walk) receiveLate(a arrival) {
	gone := w.gone.remove(a.origin)
	if gone {
		w.unexplain()
	}
	if gone || w.missing.remove(a.origin) {
		w.report.Events++
		w.report.add(a.finding(Order, "event %d comes before it", w.at))
		return
	}
	w.report.add(a.finding(Doubled, "it is there a second time"))
}
