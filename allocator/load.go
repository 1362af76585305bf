package allocator

import (
	"time"

	"github.com/idworker/idworker/store"
)

// loadState is the state of a tag's latest load. It is guarded by the tag's mu.
//
//	idle     nothing is ready and a tenth is used, or memory does not last, or parked
//	         requests want more than is in memory → open
//	open     a grant that counts → idle; none for Config.ReAsk, then for twice that and
//	         so on, or the first request is parked → requested again, with the same
//	         number; a refusal → refused; a grant that proves that the store went back
//	         → requested again, with a new number; the last request of a strict load
//	         goes away → idle
//	refused  Config.ReAsk later → idle; until then, requests that memory cannot answer
//	         get the error at once. While memory can answer them the time doubles with
//	         each refusal in a row, up to a minute
type loadState struct {
	seq       uint64        // the load under way; 0: none
	try       int           // the times it was requested
	askedAt   time.Duration // when it was last requested
	urgent    bool          // requests were parked then
	dueNow    bool          // it has to be requested at once
	refusal   error         // why the store refused the latest load
	refusedAt time.Duration
	refusals  int // since a grant was last used

	want int64 // the IDs of the requests of a strict load; 0: it was not sent yet
}

// atRest reports whether no load is under way, and none was refused.
func (l *loadState) atRest() bool { return l.seq == 0 && l.refusal == nil && l.refusals == 0 }

const (
	// reAskDoublings bounds the doublings of the pause before a load is requested again.
	reAskDoublings = 4

	// strictHurry is the part of that pause after which a load is requested again for which
	// requests wait that cannot be answered otherwise.
	strictHurry = 8
)

// dueAt is when the load under way has to be requested again. For strict and unknown
// tags the first time is earlier: requests wait, and the loader may be frozen.
func (t *tag) dueAt(reAsk time.Duration) time.Duration {
	l := &t.busy.load
	if l.dueNow {
		return 0
	}
	try := l.try - 1
	if t.order != store.Trend {
		if try--; try < 0 {
			return l.askedAt + reAsk/strictHurry
		}
	}
	return l.askedAt + reAsk<<min(max(try, 0), reAskDoublings)
}

// currentRefusal returns the store's refusal, until it is reAsk old.
func (l *loadState) currentRefusal(now, reAsk time.Duration) error {
	if l.refusal != nil && now-l.refusedAt >= reAsk {
		l.refusal = nil
	}
	return l.refusal
}

// maxRefusals bounds how the pause after a refusal grows.
const maxRefusals = 7

// resting reports whether loads pause because the store refused the latest ones. The
// pause is reAsk long, and doubles with each refusal. It is a minute at most, so that a
// tag whose numbers were raised is back before its memory is used up.
func (l *loadState) resting(now, reAsk time.Duration) bool {
	return l.refusals > 0 && now-l.refusedAt < reAsk<<min(l.refusals-1, maxRefusals-1)
}

// The methods below need the tag's mu.

// loadDue reports whether a new load has to begin.
func (t *tag) loadDue(now, reAsk time.Duration, ceiling int64) bool {
	switch {
	case t.dropped || t.busy.load.seq != 0:
		return false
	case t.lacksIDs():
		return t.busy.load.currentRefusal(now, reAsk) == nil
	case t.cur.Load() == nil || t.busy.load.resting(now, reAsk): // not in use, or it would be refused
		return false
	}
	return len(t.busy.ready) == 0 && t.cur.Load().low() || len(t.busy.ready) < maxReady && t.isTried() && t.runsShort(now, ceiling)
}

// isTried reports whether enough IDs were handed out since the latest load to judge
// its step.
func (t *tag) isTried() bool { return t.meter.total(t.cur.Load())-t.meter.atLoad >= t.step/looks }

// maxReady bounds the segments that are loaded because memory does not last. While a
// step grows, there are two or three.
const maxReady = 4

// runsShort reports whether memory does not last for shortLife at the present rate.
// Where the ceiling does not allow for that, nine tenths of a segment are enough.
func (t *tag) runsShort(now time.Duration, ceiling int64) bool {
	least := t.paces(now).lasting(shortLife, steadyTime)
	return t.available() < min(least, ceiling-ceiling/loadAt)
}

func (t *tag) paces(now time.Duration) paces { return t.meter.paces(now, t.cur.Load(), t.busy.demand) }

// askDue reports whether the load under way has to be requested again: its time has
// come, or requests were parked since it was requested as a refill.
func (t *tag) askDue(now, reAsk time.Duration) bool {
	return t.busy.load.seq != 0 && (now >= t.dueAt(reAsk) || !t.busy.load.urgent && t.lacksIDs())
}

// nextVisit returns when Tick has to visit the tag, if at all.
func (t *tag) nextVisit(reAsk time.Duration) (at time.Duration, needed bool) {
	if len(t.busy.parked) > 0 {
		at, needed = t.busy.parked[0].deadline, true
	}
	if due := t.dueAt(reAsk); t.busy.load.seq != 0 && (!needed || due < at) {
		at, needed = due, true
	}
	return at, needed
}

// beginLoad begins load seq. The step policy decides the step of a trend tag. The
// loader decides for other tags, so its first load counts as one of the step that its
// grant says.
func (t *tag) beginLoad(seq uint64, now time.Duration, ceiling int64) Load {
	switch t.order {
	case store.Trend:
		t.step = t.chooseStep(now, ceiling)
	case "":
		t.meter.begin(now, nil)
	}
	t.busy.load = loadState{seq: seq, refusals: t.busy.load.refusals}
	t.begunAt = now
	t.meter.atLoad = t.meter.total(t.cur.Load())
	return t.askForLoad(now, ceiling)
}

// chooseStep is the step policy: a step that lasts for wantedLife, if memory does not
// last; and otherwise Leaf's rule.
func (t *tag) chooseStep(now time.Duration, ceiling int64) int64 {
	if t.runsShort(now, ceiling) {
		return grownStep(max(t.step, t.configured), t.paces(now), ceiling)
	}
	return nextStep(t.step, t.segmentLife(now), t.configured, ceiling)
}

// segmentLife is how long a segment of the present step lasts at the rate since the
// latest load. Leaf uses the time between two loads instead. But nearly all of that
// time was spent in the segment before, and a step that is judged by the life of
// another segment never settles.
func (t *tag) segmentLife(now time.Duration) time.Duration {
	used := t.meter.total(t.cur.Load()) - t.meter.atLoad + t.busy.demand
	life := float64(now-t.begunAt) * float64(t.step) / float64(used)
	if life < float64(MaxRunway) {
		return time.Duration(life)
	}
	return MaxRunway // nothing was used
}

// askForLoad returns the load under way, to be requested for the first time or again.
func (t *tag) askForLoad(now time.Duration, ceiling int64) Load {
	t.busy.load.askedAt, t.busy.load.urgent, t.busy.load.dueNow = now, t.lacksIDs(), false
	t.busy.load.try++
	return t.currentLoad(now, ceiling)
}

// currentLoad is the load under way as it would be requested now.
func (t *tag) currentLoad(now time.Duration, ceiling int64) Load {
	l := &t.busy.load
	want := min(t.busy.demand, ceiling)
	if t.order != store.Trend {
		if want = l.want; want == 0 {
			_, want = t.nextRequests(ceiling)
		}
	}
	return Load{t.name, t.step, want, t.runway(now), l.seq, l.try, t.order == ""}
}

// isLoading is 1 if a load is under way, else 0.
func (t *tag) isLoading() int {
	if t.busy.load.seq != 0 {
		return 1
	}
	return 0
}

// CurrentLoad returns load seq of the tag as it has to be sent now, if it is still
// under way. The sender calls it right before it sends, each time.
//
// For a strict or unknown tag, the first call fixes the load's requests, and so Want:
// all requests that are parked now, in order, as long as their sum is at most
// Config.MaxStep.
func (a *Allocator) CurrentLoad(name string, seq uint64) (l Load, ok bool) {
	t, ok := a.tags.Load(name)
	if !ok {
		return l, false
	}
	t.lock()
	defer t.unlock()
	if seq == 0 || seq != t.busy.load.seq {
		return l, false
	}
	t.fixLoad(a.cfg.MaxStep)
	t.busy.load.urgent = t.lacksIDs() // as the loader is told now
	return t.currentLoad(a.cfg.Clock(), a.cfg.MaxStep), true
}

// Refuse ends load seq with an error that will not go away soon, such as
// store.ErrNoTag or store.ErrExhausted. All parked requests of the tag get it.
//
// A trend tag stays in memory, and goes on with what is left of its segments: there
// may be another load soon, see resting. Any other tag leaves memory, and requests
// for it get the error for Config.ReAsk.
func (a *Allocator) Refuse(name string, seq uint64, err error) {
	t, ok := a.tags.Load(name)
	if !ok {
		return
	}
	a.update(t, func() []reply {
		now := a.cfg.Clock()
		l := &t.busy.load
		switch {
		case seq == 0 || seq != l.seq:
			return nil
		case t.order == store.Trend:
			l.seq, l.refusal, l.refusedAt = 0, err, now
			l.refusals++
			return t.failParked(err)
		}
		a.refused.add(name, err, now+a.cfg.ReAsk)
		return a.drop(t, err)
	})
}
