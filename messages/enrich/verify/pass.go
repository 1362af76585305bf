package verify

import (
	"context"
	"errors"
	"io"

	"github.com/idworker/idworker/internal/streamread"
)

// next returns the event of the source that is to be passed next, or nil at the point.
func (w *walk) next(ctx context.Context) (*streamread.Message, error) {
	if w.ahead != nil {
		return w.ahead, nil
	}
	msg, err := w.source.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.ahead = &msg
	return w.ahead, nil
}

// passTo passes the events of the source before one that is in the target: they should have
// been there before.
func (w *walk) passTo(ctx context.Context, a arrival) error {
	var hole spans
	var expired uint64 // events of the hole whose dead letters may have been removed
	for {
		e, err := w.next(ctx)
		if err != nil {
			return err
		}
		if e == nil || e.Sequence >= a.origin {
			break
		}
		switch {
		case w.settle(*e):
		case w.at == 0 && e.Time.Before(w.targetCreated):
			w.gone.add(e.Sequence, a.Sequence)
		default:
			hole.add(e.Sequence, a.Sequence)
			if w.letters.removed.mayHaveBeen(*e) {
				expired++
			}
		}
		w.ahead = nil
	}
	switch n := hole.count(); {
	case n == 0:
	case w.explain(n, expired):
		w.gone = append(w.gone, hole...)
	default:
		w.missing = append(w.missing, hole...)
	}
	return nil
}

// explain reports whether as many messages are gone as events are missing before the present one
// in the target, and explain no other event: events, or dead letters of events. Then they explain
// these. For early events, the dead letters before the first that is left may.
func (w *walk) explain(missing, early uint64) bool {
	inTarget := min(missing, w.gaps.left())
	letters := missing - inTarget
	if letters > w.letters.removed.left(early) {
		return false
	}
	w.gaps.use(inTarget)
	w.letters.removed.used += letters
	return true
}

// unexplain takes back what was used for an event that has come late.
func (w *walk) unexplain() {
	if w.letters.removed.used > 0 {
		w.letters.removed.used--
		return
	}
	w.gaps.giveBack()
}

// passDead passes what comes next in the source, before a sequence, and is settled.
func (w *walk) passDead(ctx context.Context, before uint64) error {
	for {
		e, err := w.next(ctx)
		if err != nil || e == nil || e.Sequence >= before || !w.settle(*e) {
			return err
		}
		w.ahead = nil
	}
}

// settle accounts for an event of the source if it is a dead letter, or there is a finding of it already.
func (w *walk) settle(e streamread.Message) bool {
	switch {
	case w.letters.has(e):
		w.report.Dead++
	case w.spoilt[e.Sequence]:
		w.report.Events++
		delete(w.spoilt, e.Sequence)
	default:
		return false
	}
	w.account(e)
	return true
}

// countWaiting counts the events behind the last one that has arrived. If the end of the
// target has been removed, some may have been there.
func (w *walk) countWaiting(ctx context.Context) error {
	w.gaps.pass(w.end + 1)
	removed := w.gaps.left() + w.letters.removed.left(w.letters.removed.first)
	for {
		e, err := w.next(ctx)
		if err != nil || e == nil {
			return err
		}
		switch {
		case w.letters.has(*e):
			w.report.Dead++
		case removed > 0:
			removed--
			w.gone.add(e.Sequence, w.end+1)
		default:
			w.report.Waiting++
		}
		w.ahead = nil
	}
}
