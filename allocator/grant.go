package allocator

import (
	"cmp"
	"time"

	"github.com/idworker/idworker/store"
)

// Outcome is the fate of a grant.
type Outcome int

// The outcomes.
const (
	// Burnt: the tag is not held, there is no room, or the grant is late or a
	// duplicate. None of that is evidence about the store.
	Burnt Outcome = iota

	// Used: the segment was added to the buffer, or served a strict load.
	Used

	// OtherOrder: the grant answers the load under way, and its order differs
	// from the tag's. It is burnt, and the tag is dropped, so that the next
	// request creates it again.
	OtherOrder

	// Below: the grant answers the load under way and yet lies below an earlier
	// grant, so the store regressed. It is burnt.
	Below
)

// Verdict is the fate of a grant, and why.
type Verdict struct {
	Outcome Outcome

	// Above is the end of the highest segment that was granted before, if the
	// outcome is Below.
	Above int64

	// FirstBelow is set with the first Below since a grant of the tag was used.
	FirstBelow bool
}

// grant decides whether a grant is used, and uses it. It needs the tag's mu.
//
// The case Below is proof. Only grants that end the load under way raise the
// tag's high. So while load s is open, high stays as it was when s began. Every
// range that counts towards high had been reserved by then, and no loader had
// seen s. A store gives higher ranges to later calls. So every answer to s lies
// at or above high, even if s is requested and answered several times, in any
// order. Any other grant below high may have been overtaken.
func (a *Allocator) grant(t *tag, seq uint64, s Answer, now time.Duration) Verdict {
	current := seq != 0 && seq == t.busy.load.seq
	switch {
	case s.Order == "", s.Order.Check() != nil, !current && (t.order != store.Trend || s.Order != t.order || s.First < t.high):
		return Verdict{Outcome: Burnt}
	case t.order != "" && t.order != s.Order:
		a.drop(t, ErrDropped)
		return Verdict{Outcome: OtherOrder}
	case s.First < t.high:
		first := !t.regressed
		if t.regressed = true; first {
			// A new number makes loaders that are still busy with the old load
			// take it. The step is not judged again, because no time has
			// passed.
			t.busy.load = load{seq: a.seq.Add(1), wanted: now, state: waiting, need: forever, refusals: t.busy.load.refusals}
		}
		return Verdict{Below, t.high, first}
	}
	if t.order == "" {
		a.setOrder(t, s)
	}
	t.recordGap(s.Segment)
	t.high = s.End // even if there is no room
	t.meter.granted += s.Len()
	l := &t.busy.load
	*l = load{due: l.due, refusal: l.refusal, refusals: l.refusals}
	if t.order == store.Strict {
		a.burnt.Add(t.serveLoad(seq, s.Segment))
		t.regressed = false
		return Verdict{Outcome: Used}
	}
	if s.Step > 0 {
		t.setConfigured(s.Step)
	}
	if !t.installSegment(s.Segment, current) {
		return Verdict{Outcome: Burnt}
	}
	t.regressed, l.refusals, l.due = false, 0, 0
	t.serveParked()
	return Verdict{Outcome: Used}
}

// setOrder gives an unknown tag the order and the step of its first grant.
func (a *Allocator) setOrder(t *tag, s Answer) {
	a.unknown.Add(-1)
	t.order = s.Order
	if s.Order == store.Trend {
		t.configured = cmp.Or(max(s.Step, 0), s.Len())
		t.step = min(t.configured, a.cfg.MaxStep)
	}
}
