package allocator

import (
	"errors"
	"time"

	"github.com/idworker/idworker/store"
)

// loadState is how far a tag's latest load has come; doc.go draws it. It is guarded by
// the tag's mu.
type loadState struct {
	seq       uint64        // the load under way; 0: none
	try       int           // how often it was asked for
	askedAt   time.Duration // when it was last asked for
	urgent    bool          // requests were parked then
	dueNow    bool          // it has to be asked for at once
	refusal   error         // why the store refused the latest load
	refusedAt time.Duration
	refusals  int // since a grant was last used
}

// atRest reports whether no load is under way, and none was refused.
func (l *loadState) atRest() bool { return l.seq == 0 && l.refusal == nil && l.refusals == 0 }

// reAskDoublings is how often the pause before a load is asked for again is doubled.
const reAskDoublings = 4

// dueAt is when the load under way has to be asked for again.
func (l *loadState) dueAt(reAsk time.Duration) time.Duration {
	if l.dueNow {
		return 0
	}
	return l.askedAt + reAsk<<min(max(l.try-1, 0), reAskDoublings)
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

// resting reports whether no load is worth its while, because the store has refused the latest
// ones. That lasts for reAsk, and twice as long after each more of them; but a minute at most, so
// that a tag whose numbers were raised is back before its memory is used up.
func (l *loadState) resting(now, reAsk time.Duration) bool {
	return l.refusals > 0 && now-l.refusedAt < reAsk<<min(l.refusals-1, maxRefusals-1)
}

// The methods below need the tag's mu.

// loadDue reports whether a new load has to be asked for.
func (t *tag) loadDue(now, reAsk time.Duration, ceiling int64) bool {
	switch {
	case t.configured == 0 || t.busy.load.seq != 0:
		return false
	case t.lacksIDs():
		return t.busy.load.currentRefusal(now, reAsk) == nil
	case t.cur.Load() == nil || t.busy.load.resting(now, reAsk): // nobody asks, or it would be no use
		return false
	}
	return len(t.busy.ready) == 0 && t.cur.Load().low(t.nextAt()) || len(t.busy.ready) < maxReady && t.isTried() && t.runsShort(now, ceiling)
}

// isTried reports whether enough IDs were handed out since the latest load to judge its step.
func (t *tag) isTried() bool { return t.meter.total(t.cur.Load())-t.meter.atLoad >= t.step/looks }

// nextAt is the divisor that says how much of a segment is used before the next is asked for.
func (t *tag) nextAt() int64 {
	if t.mayIdle {
		return loadAtFirstUse
	}
	return loadAt
}

// maxReady bounds the segments that are asked for because memory does not last. While a step
// grows to what it has to be, there are two or three.
const maxReady = 4

// runsShort reports whether memory does not last for shortLife at the present rate. Where the
// ceiling does not allow for more, memory need not be more than when nine tenths of a segment
// are left.
func (t *tag) runsShort(now time.Duration, ceiling int64) bool {
	least := t.paces(now).lasting(shortLife, steadyTime)
	return t.available() < min(least, ceiling-ceiling/loadAt)
}

func (t *tag) paces(now time.Duration) paces { return t.meter.paces(now, t.cur.Load(), t.busy.demand) }

// askDue reports whether the load under way has to be asked for again: its time has come, or
// requests are parked of which whoever was asked does not know.
func (t *tag) askDue(now, reAsk time.Duration) bool {
	return t.busy.load.seq != 0 && (now >= t.busy.load.dueAt(reAsk) || !t.busy.load.urgent && t.lacksIDs())
}

// nextVisit returns when Tick has to visit the tag, if at all.
func (t *tag) nextVisit(reAsk time.Duration) (at time.Duration, needed bool) {
	if len(t.busy.parked) > 0 {
		at, needed = t.busy.parked[0].deadline, true
	}
	if due := t.busy.load.dueAt(reAsk); t.busy.load.seq != 0 && (!needed || due < at) {
		at, needed = due, true
	}
	return at, needed
}

// beginLoad begins load seq, whose step the step policy decides.
func (t *tag) beginLoad(seq uint64, now time.Duration, ceiling int64) Load {
	t.step = t.chooseStep(now, ceiling)
	t.busy.load = loadState{seq: seq, refusals: t.busy.load.refusals}
	t.begunAt = now
	t.meter.atLoad = t.meter.total(t.cur.Load())
	return t.askForLoad(now, ceiling)
}

// chooseStep is the step policy: the configured step first; what lasts for wantedLife, if memory
// does not last; and otherwise Leaf's rule.
func (t *tag) chooseStep(now time.Duration, ceiling int64) int64 {
	switch {
	case t.step == 0:
		t.meter.begin(now, t.cur.Load())
		return min(t.configured, ceiling)
	case t.runsShort(now, ceiling):
		return grownStep(max(t.step, t.configured), t.paces(now), ceiling)
	}
	return nextStep(t.step, t.segmentLife(now), t.configured, ceiling)
}

// segmentLife is how long a segment of the present step lasts at the rate since the
// latest load. Leaf uses the time between two loads instead. But nearly all of that time
// was spent in the segment before, and a step that is judged by the life of another
// segment swings for ever between a quarter and the whole of what it should be.
func (t *tag) segmentLife(now time.Duration) time.Duration {
	used := t.meter.total(t.cur.Load()) - t.meter.atLoad + t.busy.demand
	life := float64(now-t.begunAt) * float64(t.step) / float64(used)
	if life < float64(MaxRunway) {
		return time.Duration(life)
	}
	return MaxRunway // nothing was used
}

// askForLoad asks for the load under way, the first time or again, with what parked
// requests want by now.
func (t *tag) askForLoad(now time.Duration, ceiling int64) Load {
	t.busy.load.askedAt, t.busy.load.urgent, t.busy.load.dueNow = now, t.lacksIDs(), false
	t.busy.load.try++
	return t.currentLoad(now, ceiling)
}

// currentLoad is the load under way as it would be asked for now.
func (t *tag) currentLoad(now time.Duration, ceiling int64) Load {
	return Load{t.name, t.step, min(t.busy.demand, ceiling), t.high, t.runway(now), t.busy.load.seq, t.busy.load.try}
}

// refuseLoad ends load seq with the store's refusal and fails all requests that wait for
// it. It ignores that the store does not know a tag that it has granted: the row may be
// missing because a backup is being restored. If it was deleted, the tag will be removed.
func (t *tag) refuseLoad(seq uint64, err error, now time.Duration) []reply {
	if seq == 0 || seq != t.busy.load.seq || t.high > 0 && errors.Is(err, store.ErrNoTag) {
		return nil
	}
	t.busy.load.seq, t.busy.load.refusal, t.busy.load.refusedAt = 0, err, now
	t.busy.load.refusals++
	return t.failParked(err)
}

// isLoading is 1 if a load is under way, else 0.
func (t *tag) isLoading() int {
	if t.busy.load.seq != 0 {
		return 1
	}
	return 0
}
