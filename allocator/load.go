package allocator

import (
	"cmp"
	"errors"
	"time"
	"unique"

	"github.com/idworker/idworker/store"
)

// load is a tag's load, from wanted to installed. It is guarded by the tag's
// mu.
//
//	idle     less than half of the level is buffered, or parked requests want
//	         more than is buffered → waiting
//	waiting  Send returns it → open. The first time, that fixes the requests of
//	         a strict or unknown tag, here and nowhere else
//	open     a grant that counts → idle
//	         no answer for Config.ReAsk → waiting, behind the loads that have
//	         waited for less long
//	         the first requests are parked, or an eighth of Config.ReAsk passes
//	         for a strict or unknown tag → sent once more, if places are free
//	resting  its time comes → waiting
//
// Answers may arrive late, in any state but idle: a grant → idle; a refusal →
// idle, or the tag is dropped; TagFails → resting; a grant that proves that the
// store regressed → waiting, with a new number. A strict load whose last
// request leaves → idle.
type load struct {
	state     loadState
	seq       uint64        // its number; 0 if idle
	wanted    time.Duration // since when
	need      time.Duration // while it waits, its order in the queue
	behind    time.Duration // for how long it lets others go first
	sent      time.Duration // when, the latest time
	want      int64         // the IDs of a strict load's requests; 0: not sent yet
	trendOnly int64         // of want, those that only a trend tag has

	parked bool   // requests were, when it was sent
	second bool   // it was sent once more since
	failed bool   // this sending was answered with TagFails
	repeat repeat // for the queue, to send it once more
	direct bool   // the load stream does not take it
	queued int    // refusals of the load stream, which holds an event of the tag

	// The end of a rest, present or next; if idle, no refill begins sooner.
	due      time.Duration
	rests    int // in a row, since a grant or a refusal
	refusal  refusal
	refusals int // since a grant was last used
}

type loadState int8

const (
	idle loadState = iota
	waiting
	open
	resting
)

// repeat is a wish to send an open load once more.
type repeat int8

const (
	notAgain  repeat = iota
	mayAgain         // if places are free
	mustAgain        // nothing was sent
)

const (
	// maxRests and maxRefusals bound the doubling of pauses. After a refusal
	// that is a minute at most, so that a tag whose numbers were raised is back
	// before its buffer is used up.
	maxRests    = 5
	maxRefusals = 7

	// secondTry is the part of Config.ReAsk after which a strict or unknown
	// load is sent for the second time: requests wait that cannot be answered
	// otherwise, and the loader may be frozen.
	secondTry = 8

	// maxBehind bounds the time for which a load lets others go first after
	// attempts that were not served: its tag may be unservable for now.
	maxBehind = time.Minute

	// A refill that the load stream has refused enoughQueued times goes to a
	// loader directly if half of its runway is below shortRunway: the loader
	// that has the earlier event may be dead. Otherwise the stream may just have
	// a backlog, and a second way would write each refill twice.
	enoughQueued = 2
	shortRunway  = 10 * time.Second

	// maxReady bounds the ready segments if loaders grant fewer IDs than loads
	// ask for, except while requests are parked. Otherwise there are two at
	// most.
	maxReady = 4
)

// The methods of tag below need its mu.

// wantsLoad decides whether a new load begins.
func (t *tag) wantsLoad(now time.Duration, ceiling int64) bool {
	switch l := &t.busy.load; {
	case t.underfilled(): // requests that are parked in spite of a refusal want less
		return l.refusal.current(now) == nil || l.refusal.least > 0
	case t.configured == 0 || now < l.due: // no buffer, or postponed
		return false
	}
	return t.isLow(now, ceiling)
}

// advanceLoad begins a load, or moves the present one on, after a change of the
// tag or when time has passed.
func (a *Allocator) advanceLoad(t *tag, now time.Duration) {
	l := &t.busy.load
	switch {
	case l.state == idle && t.wantsLoad(now, a.cfg.MaxStep):
		t.beginLoad(a.seq.Add(1), now, a.cfg.MaxStep)
	case l.state == open && now-l.sent >= a.cfg.ReAsk && l.rests > 0: // as before
		l.state = resting
	case l.state == open && now-l.sent >= a.cfg.ReAsk:
		l.behind = min(now-l.wanted, maxBehind)
		l.state, l.need = waiting, forever
	case l.state == open && !l.second && t.isSecondDue(now, a.cfg.ReAsk):
		l.second, l.repeat = true, mayAgain
	case l.state == resting && now >= l.due:
		l.state, l.need = waiting, forever
	}
	if l.state != waiting {
		return
	}
	// Parked requests cannot wait at all. A buffer should outlast the wait, even
	// if parked requests of other tags go first. Voided buffers may be many, so
	// they wait for all others.
	need := now + l.behind
	switch {
	case t.busy.demand > 0:
	case t.order == "":
		need += MaxRunway
	default:
		need += t.runway(now) / 2
	}
	// The load moves forward only, until no request waits for it any more.
	if left := t.busy.position.lane == urgent && t.lane() == refill; left || need < l.need {
		l.need = need
	}
}

// beginLoad begins load seq. The step policy decides the step of a trend tag.
// The loader decides for other tags, so their first load counts with the step
// of its grant. A strict load that follows a load at rest rests as long.
func (t *tag) beginLoad(seq uint64, now time.Duration, ceiling int64) {
	switch t.order {
	case store.Trend:
		t.step = t.chooseStep(now, ceiling)
	case "":
		if t.isNew() {
			begin := sample{now, 0}
			t.meter.samples = [...]sample{begin, begin, begin, begin}
		} else if t.configured > 0 {
			t.step = t.chooseStep(now, ceiling)
		}
	}
	l := &t.busy.load
	*l = load{seq: seq, wanted: now, due: l.due, rests: l.rests, refusal: l.refusal, refusals: l.refusals}
	if l.state, l.need = waiting, forever; l.rests > 0 && now < l.due {
		l.state = resting
	}
}

// isSecondDue reports whether the open load is due to be sent once more: as
// requests were parked since it was sent as a refill, or soon for a strict or
// unknown tag.
func (t *tag) isSecondDue(now, reAsk time.Duration) bool {
	l := &t.busy.load
	switch {
	case l.rests > 0:
		return false
	case t.order == store.Trend || l.want == noRequests:
		return !l.parked && t.underfilled()
	}
	return now-l.sent >= reAsk/secondTry
}

// position returns the times at which the load is needed and the tag has to be
// visited.
func (t *tag) position(reAsk time.Duration) (s position) {
	switch l := &t.busy.load; {
	case l.state == waiting:
		s.lane, s.need = t.lane(), l.need
	case l.state == open && t.order != store.Trend && !l.second && l.rests == 0:
		s.visit = l.sent + reAsk/secondTry
	case l.state == open:
		s.visit = l.sent + reAsk
	case l.state == resting:
		s.visit = l.due
	}
	if len(t.busy.parked) > 0 && (s.visit == 0 || t.busy.parked[0].deadline < s.visit) {
		s.visit = t.busy.parked[0].deadline
	}
	return s
}

// lane is the lane in which the load waits.
func (t *tag) lane() lane {
	switch {
	case t.isNew():
		return unknown
	case t.busy.demand > 0 || t.available() == 0 && t.order == store.Trend:
		return urgent
	}
	return refill
}

// Send returns the load that is needed most, for the first time or again, if
// there is a place for it. The caller sends it to a loader. It calls Send again
// after each load, and after every event of whatever kind, because answers and
// time free places. A single goroutine calls Send.
//
// The first sending of a strict or unknown tag's load fixes its requests, and
// so Want: all requests that are parked now, in order, as long as their sum is
// at most Config.MaxStep.
func (a *Allocator) Send() (l Load, ok bool) {
	for !ok {
		t, again := a.queue.next(a.cfg.Clock())
		if t == nil {
			return l, false
		}
		a.update(t, func(now time.Duration) { l, ok = a.openLoad(t, again, now) })
	}
	return l, true
}

// openLoad opens the load of a tag, or returns it once more while it is open.
// It does nothing if the load has changed since the queue returned it.
func (a *Allocator) openLoad(t *tag, again bool, now time.Duration) (Load, bool) {
	l := &t.busy.load
	switch {
	case !again && l.state == waiting:
		a.queue.take(sending{l.seq, t.lane(), now})
		l.state, l.sent, l.second, l.failed, l.direct = open, now, false, false, false
		if l.rests > 0 { // also for the next load, if this one is given up
			l.due = now + l.pause(a.cfg.ReAsk)
		}
	case again && l.state == open:
	default:
		return Load{}, false
	}
	l.parked = t.underfilled()
	want, runway := min(t.busy.demand, a.cfg.MaxStep), t.runway(now)
	if t.order != store.Trend {
		want = t.fixRequests(a.cfg.MaxStep)
	}
	hurry := l.queued >= enoughQueued && runway/2 < shortRunway
	return Load{
		Tag: t.name, Seq: l.seq, Step: t.step, Want: want, TrendOnly: l.trendOnly, Runway: runway, First: t.isNew(), Next: t.high,
		Direct: want > 0 || t.step == 0 || l.direct || hurry,
	}, true
}

// Answer takes a loader's answer to load seq, or the fate of its sending. An
// answer frees the load's place, whatever became of the tag, except StoreFails.
func (a *Allocator) Answer(name string, seq uint64, answer Answer) (v Verdict) {
	if answer.Later == StoreFails {
		return v // no answer: the load stays open
	}
	if answer.Later != Queued && answer.Later != NotSent {
		a.queue.answer(seq, a.cfg.Clock())
	}
	a.updateTag(name, func(t *tag, now time.Duration) {
		l := &t.busy.load
		switch current := seq != 0 && seq == l.seq; {
		case answer.Valid():
			v = a.grant(t, seq, answer, now)
		case !current:
		case errors.Is(answer.Refused, store.ErrStrict):
			a.refuseTrendOnly(t, seq, now)
		case answer.Refused != nil:
			a.refuse(t, now, answer.Refused)
		case answer.Later == TagFails:
			t.rest(now, a.cfg.ReAsk)
		case answer.Later == Queued:
			l.queued++
		case answer.Later == NotSent && l.state == open:
			l.direct, l.repeat = true, mustAgain
		}
	})
	return v
}

// grant decides whether a grant is used, and uses it. It needs the tag's mu.
//
// A late grant is used as long as the buffer is low. So one that is burnt leaves
// a buffer that wants no load: otherwise it would end the open load, the next
// one would begin at once, its predecessor's answer would be late, and so on.
//
// The case Below is proof. A grant that raises the tag's high also ends its
// load, used or burnt. So while load s is under way, high stays as it was when s
// began. Every range that counts towards high had been reserved by then, and no
// loader had seen s. A store gives higher ranges to later calls. So every answer
// to s lies at or above high, even if s is sent and answered several times, in
// any order. Any other grant below high may have been overtaken.
//
// A voided tag that had a buffer uses a late grant, too, if that shows that the tag
// is trend. Otherwise it would never recover while loaders take longer than
// requests wait.
//
// A grant from before a decision is proof, too, if it answers the open load: that
// load began after the decision.
func (a *Allocator) grant(t *tag, seq uint64, s Answer, now time.Duration) Verdict {
	// A loader of version 0.2.0 sends no floor. It reserves under a decision what is
	// requested after it.
	before := seq < a.line.replaced.Load() ||
		s.Floor == 0 && seq < a.line.since.Load() ||
		s.Floor != 0 && s.Floor != a.line.floor.Load()
	current := seq != 0 && seq == t.busy.load.seq && (!before || seq > a.line.since.Load()) // or it is about to be voided
	switch {
	case s.Order != store.Trend && s.Order != store.Strict,
		!current && (before || t.configured == 0 || s.Order != store.Trend || s.First < t.high):
		return Verdict{Outcome: Burnt}
	case t.order != "" && t.order != s.Order && !before:
		a.drop(t, ErrDropped)
		return Verdict{Outcome: OtherOrder}
	case s.First < t.high || before:
		first := !t.regressed
		if t.regressed = true; first {
			// A new number makes loaders that are still busy with the old load
			// take it. The step is not judged again, because no time has
			// passed.
			t.busy.load = load{seq: a.seq.Add(1), wanted: now, state: waiting, need: forever, refusals: t.busy.load.refusals}
		}
		return Verdict{Below, t.high, t.grantedBy(), t.sequence, first}
	}
	if t.order == "" {
		a.setOrder(t, s)
	}
	t.recordGap(s.Segment)
	t.high, t.by, t.sequence = s.End, unique.Make(s.Loader), s.Sequence // even if there is no room
	t.meter.granted += s.Len()
	l := &t.busy.load
	*l = load{due: l.due, refusal: l.refusal, refusals: l.refusals}
	if t.order == store.Strict {
		a.burnt.Add(t.serveLoad(seq, s.Segment))
		t.regressed = false
		return Verdict{Outcome: Used}
	}
	if s.Step > 0 && s.Step != t.configured {
		t.configured = s.Step
	}
	if !t.installSegment(s.Segment, current || t.isLow(now, a.cfg.MaxStep)) {
		return Verdict{Outcome: Burnt}
	}
	t.regressed, l.refusals, l.due = false, 0, 0
	t.serveParked()
	return Verdict{Outcome: Used}
}

// setOrder gives an unknown tag the order and the step of a grant.
func (a *Allocator) setOrder(t *tag, s Answer) {
	if t.isNew() {
		a.unknown.Add(-1)
	}
	t.order, t.configured, t.step = s.Order, 0, 0
	if s.Order == store.Trend {
		t.configured = cmp.Or(max(s.Step, 0), s.Len())
		t.step = min(t.configured, a.cfg.MaxStep)
	}
}

// rest puts the load off, because its store failed or hung for this tag: for
// reAsk, and twice as long each time until a grant or a refusal, up to 16 times
// that. Parked requests continue to wait, and further requests do not end the
// rest. Another such answer to the same sending counts for nothing.
func (t *tag) rest(now, reAsk time.Duration) {
	if l := &t.busy.load; !l.failed {
		l.rests, l.failed = min(l.rests+1, maxRests), true
		l.state, l.due = resting, now+l.pause(reAsk)
	}
}

// pause is how long the load rests.
func (l *load) pause(reAsk time.Duration) time.Duration { return reAsk << (l.rests - 1) }

// refuse ends the load with an error that will not go away soon, such as
// store.ErrNoTag or store.ErrExhausted. All parked requests of the tag get it.
//
// A tag that was granted is kept, with its highest number: if a register has lost
// it, that is evidence. A trend tag uses up the rest of its buffer. There may be
// another load after Config.ReAsk if requests need it, and else after a pause
// that doubles with each refusal. A new tag is dropped, and requests for it get
// the error for Config.ReAsk. After store.ErrExhausted, requests for fewer IDs
// than a strict load wanted may succeed.
func (a *Allocator) refuse(t *tag, now time.Duration, err error) {
	l, r := &t.busy.load, refusal{err: err, until: now + a.cfg.ReAsk}
	if errors.Is(err, store.ErrExhausted) && t.order != store.Trend {
		r.least = l.want
	}
	if t.isNew() {
		a.addRefusal(t.name, r)
		a.drop(t, err)
		return
	}
	*l = load{due: now + a.cfg.ReAsk<<min(l.refusals, maxRefusals-1), refusal: r, refusals: l.refusals + 1}
	t.failParked(forever, err)
}
