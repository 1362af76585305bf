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
	dueNow    bool          // it has to be asked for at once
	refusal   error         // why the store refused the latest load
	refusedAt time.Duration
}

// overdue reports whether a load is under way that has to be asked for again.
func (l *loadState) overdue(now, reAsk time.Duration) bool {
	return l.seq != 0 && (l.dueNow || now-l.askedAt >= reAsk)
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
	t.load.askedAt, t.load.dueNow = now, false
	t.load.try++
	return Load{t.name, t.step, min(t.demand, ceiling), t.high, t.load.seq, t.load.try}
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
