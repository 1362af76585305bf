package allocator

import "time"

// The load state of a tag; doc.go draws it. The methods need the tag's mu.

// due reports whether a load has to be asked for.
func (t *tag) due(now, pause time.Duration) bool {
	if t.configured == 0 || t.loadSeq != 0 || t.refused(now, pause) != nil {
		return false
	}
	return t.short() || len(t.ready) == 0 && t.cur.Load().low()
}

// overdue reports whether a load that was asked for has to be asked for again.
func (t *tag) overdue(now, pause time.Duration) bool {
	return t.loadSeq != 0 && now-t.askedAt >= pause
}

// refused returns the store's refusal until it is pause old.
func (t *tag) refused(now, pause time.Duration) error {
	if t.refusal != nil && now-t.refusedAt >= pause {
		t.refusal = nil
	}
	return t.refusal
}

// ask begins load seq, with a step after the step policy.
func (t *tag) ask(seq uint64, now time.Duration, ceiling int64) Load {
	if t.step == 0 {
		t.step = min(t.configured, ceiling)
		t.meter.move(now, t.cur.Load()) // before it there was nothing
	} else {
		t.step = nextStep(t.step, t.life(now), t.configured, ceiling)
	}
	t.loadSeq, t.loadTry, t.loadedAt = seq, 0, now
	t.meter.load(now, t.cur.Load())
	return t.askAgain(now, ceiling)
}

// life is how long a segment of the present step lasts at the rate since the latest
// load. The time between the loads is not that, though Leaf takes it so: nearly all
// of it went by in the segment before, and a step that is judged by the life of
// another swings for ever between a quarter and the whole of what it should be.
func (t *tag) life(now time.Duration) time.Duration {
	used := t.meter.total(t.cur.Load()) - t.meter.loaded + t.demand
	life := float64(now-t.loadedAt) * float64(t.step) / float64(used)
	if life < float64(MaxRunway) {
		return time.Duration(life)
	}
	return MaxRunway // nothing was used
}

// askAgain repeats the load that is under way, for what is wanted by now.
func (t *tag) askAgain(now time.Duration, ceiling int64) Load {
	t.askedAt = now
	t.loadTry++
	return Load{t.name, t.step, min(t.demand, ceiling), t.loadSeq, t.loadTry}
}

// refuse ends load seq with the store's refusal and fails all who wait for it.
func (t *tag) refuse(seq uint64, err error, now time.Duration) []reply {
	if seq == 0 || seq != t.loadSeq {
		return nil
	}
	t.loadSeq, t.refusal, t.refusedAt = 0, err, now
	return t.fail(err)
}
