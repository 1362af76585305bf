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
	begunAt   time.Duration // when the latest load was first asked for
	askedAt   time.Duration // when it was last asked for
	urgent    bool          // requests were parked then
	dueNow    bool          // it has to be asked for at once
	refusal   error         // why the store refused the latest load
	refusedAt time.Duration
}

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

// The methods below need the tag's mu.

// loadDue reports whether a new load has to be asked for.
func (t *tag) loadDue(now, reAsk time.Duration) bool {
	if t.configured == 0 || t.load.seq != 0 || t.load.currentRefusal(now, reAsk) != nil {
		return false
	}
	return t.lacksIDs() || len(t.ready) == 0 && t.cur.Load().low()
}

// askDue reports whether the load under way has to be asked for again: its time has come, or
// requests are parked of which whoever was asked does not know.
func (t *tag) askDue(now, reAsk time.Duration) bool {
	return t.load.seq != 0 && (now >= t.load.dueAt(reAsk) || !t.load.urgent && t.lacksIDs())
}

// nextVisit returns when Tick has to visit the tag, if at all.
func (t *tag) nextVisit(reAsk time.Duration) (at time.Duration, needed bool) {
	if len(t.parked) > 0 {
		at, needed = t.parked[0].deadline, true
	}
	if due := t.load.dueAt(reAsk); t.load.seq != 0 && (!needed || due < at) {
		at, needed = due, true
	}
	return at, needed
}

// beginLoad begins load seq, whose step the step policy decides.
func (t *tag) beginLoad(seq uint64, now time.Duration, ceiling int64) Load {
	if t.step == 0 {
		t.step = min(t.configured, ceiling)
		t.meter.moveWindow(now, t.cur.Load()) // nothing was handed out before
	} else {
		t.step = nextStep(t.step, t.segmentLife(now), t.configured, ceiling)
	}
	t.load = loadState{seq: seq, begunAt: now}
	t.meter.recordLoad(now, t.cur.Load())
	return t.askForLoad(now, ceiling)
}

// segmentLife is how long a segment of the present step lasts at the rate since the
// latest load. Leaf uses the time between two loads instead. But nearly all of that time
// was spent in the segment before, and a step that is judged by the life of another
// segment swings for ever between a quarter and the whole of what it should be.
func (t *tag) segmentLife(now time.Duration) time.Duration {
	used := t.meter.total(t.cur.Load()) - t.meter.atLoad + t.demand
	life := float64(now-t.load.begunAt) * float64(t.step) / float64(used)
	if life < float64(MaxRunway) {
		return time.Duration(life)
	}
	return MaxRunway // nothing was used
}

// askForLoad asks for the load under way, the first time or again, with what parked
// requests want by now.
func (t *tag) askForLoad(now time.Duration, ceiling int64) Load {
	t.load.askedAt, t.load.urgent, t.load.dueNow = now, t.lacksIDs(), false
	t.load.try++
	return t.currentLoad(now, ceiling)
}

// currentLoad is the load under way as it would be asked for now.
func (t *tag) currentLoad(now time.Duration, ceiling int64) Load {
	return Load{t.name, t.step, min(t.demand, ceiling), t.high, t.runway(now), t.load.seq, t.load.try}
}

// refuseLoad ends load seq with the store's refusal and fails all requests that wait for
// it. It ignores that the store does not know a tag that it has granted: the row may be
// missing because a backup is being restored. If it was deleted, the tag will be removed.
func (t *tag) refuseLoad(seq uint64, err error, now time.Duration) []reply {
	if seq == 0 || seq != t.load.seq || t.high > 0 && errors.Is(err, store.ErrNoTag) {
		return nil
	}
	t.load.seq, t.load.refusal, t.load.refusedAt = 0, err, now
	return t.failParked(err)
}
