package allocator

import (
	"cmp"
	"errors"
	"time"

	"github.com/idworker/idworker/store"
)

// loadState is the state of a tag's latest load. It is guarded by the tag's mu.
//
//	idle     nothing is ready and a tenth is used, or the buffer does not last,
//	         or parked requests want more than is buffered → open
//	open     a grant that counts → idle
//	         none by the time it is due, or the first request is parked →
//	         requested again, with the same number
//	         NotNow → due later
//	         a refusal → refused
//	         a grant that proves that the store regressed → open, with a new number
//	         the last request of a strict load goes away → idle
//	refused  Config.ReAsk later → idle. Until then, requests that the buffer
//	         cannot answer get the error without delay. While it can answer them,
//	         the pause doubles with each refusal in a row, up to a minute
type loadState struct {
	seq uint64 // the load under way; 0: none
	try int    // the times it was requested
	// When it is requested, or again; a refill does not begin sooner.
	due    time.Duration
	urgent bool // requests were parked when it was requested
	// The IDs of the requests of a strict load; 0: it was not sent yet.
	want int64

	paused   bool // NotNow came since it was requested
	notNow   int  // the number of these in a row, since a grant or a refusal
	refusal  refusal
	refusals int // since a grant was last used
}

// atRest reports whether no load is under way, none was refused, and none put
// off.
func (l *loadState) atRest() bool { return l.seq == 0 && l.refusals == 0 && l.notNow == 0 }

const (
	// maxNotNow and maxRefusals bound the doubling of pauses. After a refusal
	// that is a minute at most, so that a tag whose numbers were raised is back
	// before its buffer is used up.
	maxNotNow   = 5
	maxRefusals = 7

	// strictHurry is the part of Config.ReAsk after which a strict or unknown
	// load is requested for the second time: requests wait that cannot be
	// answered otherwise, and the loader may be frozen.
	strictHurry = 8
)

// The methods below need the tag's mu.

// loadDue reports whether a new load has to begin.
func (t *tag) loadDue(now time.Duration, ceiling int64) bool {
	switch l := &t.busy.load; {
	case t.dropped || l.seq != 0:
		return false
	case t.underfilled():
		return l.refusal.current(now) == nil
	case t.order != store.Trend || now < l.due: // no buffer, or postponed
		return false
	case len(t.busy.ready) == 0 && t.cur.Load().low():
		return true
	}
	// Enough to judge the latest step.
	tried := t.total()-t.meter.begun.total >= t.step/checksPerSegment
	return tried && len(t.busy.ready) < maxReady && t.runsShort(now, ceiling)
}

// maxReady bounds the segments that are loaded because the buffer does not
// last. While a step grows, there are two or three.
const maxReady = 4

// requestDue reports whether the load under way has to be requested: its time
// has come, or requests were parked since it was requested as a refill, unless
// it was put off.
func (t *tag) requestDue(now time.Duration) bool {
	l := &t.busy.load
	return l.seq != 0 && (now >= l.due || !l.urgent && l.notNow == 0 && t.underfilled())
}

// nextVisit returns when Tick has to visit the tag; 0: never.
func (t *tag) nextVisit() (at time.Duration) {
	if t.busy.load.seq != 0 {
		at = t.busy.load.due
	}
	if len(t.busy.parked) > 0 && (at == 0 || t.busy.parked[0].deadline < at) {
		at = t.busy.parked[0].deadline
	}
	return at
}

// beginLoad begins load seq. The step policy decides the step of a trend tag.
// The loader decides for other tags, so their first load counts with the step
// of its grant. A strict load that follows a postponed load is due no sooner.
func (t *tag) beginLoad(seq uint64, now time.Duration, ceiling int64) {
	switch t.order {
	case store.Trend:
		t.step = t.chooseStep(now, ceiling)
	case "":
		t.meter.last = sample{now, 0}
		t.meter.before = t.meter.last
	}
	t.meter.begun = sample{now, t.total()}
	l := &t.busy.load
	*l = loadState{seq: seq, due: l.due, notNow: l.notNow, refusals: l.refusals}
}

// pause is the time from a request of the load, or from NotNow, until it is due
// again.
func (t *tag) pause(reAsk time.Duration) time.Duration {
	switch l := &t.busy.load; {
	case l.notNow > 0:
		return reAsk << (l.notNow - 1)
	case l.try == 1 && t.order != store.Trend:
		return reAsk / strictHurry
	}
	return reAsk
}

// currentLoad is the load under way as it would be requested now.
func (t *tag) currentLoad(now time.Duration, ceiling int64) Load {
	l := &t.busy.load
	want := cmp.Or(l.want, min(t.busy.demand, ceiling))
	return Load{t.name, t.step, want, t.runway(now), l.seq, l.try, t.order == ""}
}

// loading is 1 if a load is under way, else 0.
func (t *tag) loading() int64 {
	if t.busy.load.seq != 0 {
		return 1
	}
	return 0
}

// CurrentLoad returns load seq of the tag as it has to be sent now, if it is
// still under way. The sender calls it right before it sends, each time.
//
// For a strict or unknown tag, the first call fixes the load's requests, and so
// Want: all requests that are parked now, in order, as long as their sum is at
// most Config.MaxStep.
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
	t.busy.load.urgent = t.underfilled() // as in this message to the loader
	return t.currentLoad(a.cfg.Clock(), a.cfg.MaxStep), true
}

// Refuse ends load seq with an error that will not go away soon, such as
// store.ErrNoTag or store.ErrExhausted. All parked requests of the tag get it.
//
// A trend tag is kept, and uses up the rest of its buffer. There may be another
// load after Config.ReAsk if requests need it, and else after a pause that
// doubles with each refusal. Any other tag is dropped, and requests for it get
// the error for Config.ReAsk: after store.ErrExhausted only those for as many
// IDs as the load wanted.
func (a *Allocator) Refuse(name string, seq uint64, err error) {
	a.answerLoad(name, seq, func(t *tag, now time.Duration) {
		if l := &t.busy.load; t.order == store.Trend {
			l.seq, l.notNow, l.refusal = 0, 0, refusal{err: err, until: now + a.cfg.ReAsk}
			l.due = now + a.cfg.ReAsk<<min(l.refusals, maxRefusals-1)
			l.refusals++
			t.failParked(forever, err)
			return
		}
		r := refusal{err: err, until: now + a.cfg.ReAsk}
		if errors.Is(err, store.ErrExhausted) {
			r.least = t.busy.load.want
		}
		a.addRefusal(name, r)
		a.drop(t, err)
	})
}

// NotNow postpones load seq, because its store failed or hung for this tag. It
// is due again after Config.ReAsk. The pause doubles each time until a grant
// comes, up to 16 times that. Parked requests continue to wait, and further
// requests do not make it due.
func (a *Allocator) NotNow(name string, seq uint64) {
	a.answerLoad(name, seq, func(t *tag, now time.Duration) {
		// Else this answers an earlier request of it.
		if l := &t.busy.load; !l.paused {
			l.paused, l.notNow = true, min(l.notNow+1, maxNotNow)
			l.due = now + t.pause(a.cfg.ReAsk)
		}
	})
}

// answerLoad runs change if load seq is under way.
func (a *Allocator) answerLoad(name string, seq uint64, change func(t *tag, now time.Duration)) {
	a.updateTag(name, func(t *tag, now time.Duration) {
		if seq != 0 && seq == t.busy.load.seq {
			change(t, now)
		}
	})
}
