package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/leader"
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

// receiveEvent takes the next event of the target.
func (w *walk) receiveEvent(ctx context.Context, a arrival) error {
	if a.origin > w.report.Point {
		return w.receiveLater(ctx, a)
	}
	f, wrong := w.v.checker.checkID(a)
	if wrong {
		w.report.add(f)
	}
	if a.origin <= w.v.cfg.After {
		w.report.Before++
		w.addID(a)
		return nil
	}
	if a.origin > w.at {
		if err := w.passDead(ctx); err != nil { // proven, whatever comes now
			return err
		}
	}
	if strange, err := w.isStrange(ctx, a); strange || err != nil {
		return err
	}
	if a.origin <= w.at {
		w.receiveLate(a)
		return nil
	}
	return w.receiveNext(ctx, a)
}

// receiveNext takes an event that is behind the latest one in order.
func (w *walk) receiveNext(ctx context.Context, a arrival) error {
	w.checkEvidence(a)
	if err := w.passTo(ctx, a); err != nil {
		return err
	}
	w.at = a.origin
	w.gaps.passEvent()
	w.v.passed.Store(w.at)
	if w.ahead == nil || w.ahead.Sequence != a.origin {
		return w.receiveOrphan(ctx, a)
	}
	original := *w.ahead
	w.ahead = nil
	w.report.Events++
	w.account(original)
	if w.letters.has(original) {
		w.report.Both++
	}
	if a.id != 0 {
		w.ids.add(w.v.checker.template.tagFor(original.Subject), a.id)
		if f, wrong := w.v.checker.compare(original, a); wrong {
			w.report.add(f)
		}
	}
	return nil
}

// addID notes the ID of an event whose original is not at hand.
func (w *walk) addID(a arrival) {
	if tag, ok := w.v.checker.template.tagOf(a.Subject); ok && a.id != 0 {
		w.ids.add(tag, a.id)
	}
}

// account notes that an event of the source is where it should be.
func (w *walk) account(original streamread.Message) {
	if w.report.From == 0 {
		w.report.From = original.Sequence
	}
	w.report.Through, w.report.Stored = original.Sequence, original.Time
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
	}
	return w.passTo(ctx, a)
}

// receiveLate takes an event that is not behind the latest one in order.
func (w *walk) receiveLate(a arrival) {
	w.addID(a)
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

// looksAtMost is how many events without an original are looked for one by one.
const looksAtMost = 1000

// receiveOrphan takes an event whose original the source does not have under the filter.
func (w *walk) receiveOrphan(ctx context.Context, a arrival) error {
	w.report.Orphans++
	w.addID(a)
	if a.origin < w.v.source.CachedInfo().State.FirstSeq || w.looks == looksAtMost {
		return nil
	}
	w.looks++
	msg, err := leader.At(ctx, w.js, w.v.enrichment.From, a.origin)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	w.report.Orphans--
	w.report.add(a.finding(Foreign, "event %d of the source is on %q, which the filter does not match", a.origin, msg.Subject))
	return nil
}
