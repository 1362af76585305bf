package allocator

import (
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/store"
)

// Allocator holds the buffers of all tags. Its methods are safe for concurrent
// use.
type Allocator struct {
	cfg    Config
	tags   *table
	agenda agenda
	seq    atomic.Uint64

	parked, loading atomic.Int64
	fresh           freshTags
	dropped         atomic.Int64
}

// Answer is called once for a parked request: with as many IDs as it asked for, in
// ascending segments, or with an error. No lock is held meanwhile.
type Answer func(ids []store.Segment, err error)

// New returns an allocator without tags.
func New(cfg Config) *Allocator {
	return &Allocator{cfg: cfg.withDefaults(), tags: newTable(), fresh: newFreshTags()}
}

// Take returns n IDs of the tag if the current segment has them, as it usually does.
// Otherwise ok is false, nothing has happened, and the request goes to TakeOrPark.
func (a *Allocator) Take(name string, n int64) (ids store.Segment, ok bool) {
	return a.take(name, 0, n)
}

// take takes IDs of a term.
func (a *Allocator) take(name string, term uint64, n int64) (ids store.Segment, ok bool) {
	e := a.tags.find(name)
	if e == nil {
		return ids, false
	}
	cur := e.cur.Load()
	if cur == nil || cur.term != term {
		return ids, false
	}
	first, crossed, ok := cur.take(n)
	if crossed {
		a.update(e.tag.Load(), noChange) // but a load may have become due
	}
	return store.Segment{First: first, End: first + n}, ok
}

// TakeOrPark is for a request for n IDs that Take could not answer. It returns the IDs,
// if they are in memory after all, or an error. If it returns neither, the request is
// parked: answer is called when a grant brings the IDs, or when the deadline passes.
// That may be before TakeOrPark returns.
//
// Errors: store.ErrNoTag, store.ErrExhausted, ErrBusy, ErrCount, ErrTerm if the tag has terms
// by now; parked requests may also get ErrNoSegment.
func (a *Allocator) TakeOrPark(name string, n int64, answer Answer) (ids []store.Segment, err error) {
	return a.TakeOrParkIn(name, 0, n, a.cfg.Wait, answer)
}

// takeOrPark does the work of TakeOrPark under the tag's lock.
func (a *Allocator) takeOrPark(t *tag, wait time.Duration, w waiter) ([]store.Segment, error) {
	if t.configured == 0 { // removed since it was found
		return nil, store.ErrNoTag
	}
	if ids := t.takeFromAll(w.n); ids != nil {
		return ids, nil
	}
	now := a.cfg.Clock()
	if err := t.busy.load.currentRefusal(now, a.cfg.ReAsk); err != nil {
		return nil, err
	}
	if len(t.busy.parked) >= a.cfg.MaxParkedPerTag || a.parked.Load() >= int64(a.cfg.MaxParked) {
		return nil, ErrBusy
	}
	w.deadline = now + wait
	t.park(w)
	return nil, nil
}

// Grant adds a segment that the store has reserved for this process in answer to load seq,
// and says what became of it.
func (a *Allocator) Grant(name string, seq uint64, s store.Segment) (v Verdict) {
	if !s.Valid() {
		return v
	}
	t := a.activate(name)
	if t == nil {
		return v
	}
	a.update(t, func() []reply {
		if t.isEarlier(seq) {
			return nil
		}
		if t.term == 0 && a.cfg.Ordered(name) { // asked for before it was known
			return a.beginTerm(t, 0)
		}
		if v = t.judgeGrant(seq, s); v.FirstBelow {
			t.askAgainAtOnce(a.seq.Add(1))
		}
		return t.serveParked()
	})
	return v
}

// Refuse ends load seq with the store's refusal, whose reason will not go away by asking
// again: store.ErrNoTag or store.ErrExhausted.
//
// That there is no such tag is not believed of a tag that was granted before, until the tag is
// removed here too: its load stays under way, and requests that memory cannot answer wait.
func (a *Allocator) Refuse(name string, seq uint64, err error) {
	if t := a.find(name); t != nil {
		a.update(t, func() []reply { return t.refuseLoad(seq, err, a.cfg.Clock()) })
	}
}

// Tick fails requests whose deadline has passed and repeats loads that brought no grant.
// Deadlines are as exact as Tick is frequent: call it every few per cent of Config.Wait.
func (a *Allocator) Tick() {
	now := a.cfg.Clock()
	for _, t := range a.agenda.take(now) {
		a.update(t, func() []reply {
			if t.busy.until/agendaUnit <= now/agendaUnit {
				t.busy.until = 0 // taken; if that is too early it is planned again
			}
			return t.expireParked(now)
		})
	}
}

// CurrentLoad returns load seq of the tag as it would be asked for now, if it is still under
// way.
func (a *Allocator) CurrentLoad(name string, seq uint64) (l Load, ok bool) {
	t := a.find(name)
	if t == nil {
		return l, false
	}
	t.lock()
	defer t.unlock()
	if t.busy.load.seq != seq {
		return l, false
	}
	t.busy.load.urgent = t.lacksIDs() // as whoever asks now says
	return t.currentLoad(a.cfg.Clock(), a.cfg.MaxStep), true
}

// Loading is the number of loads that are under way.
func (a *Allocator) Loading() int { return int(a.loading.Load()) }

// Parked is the number of requests that wait for a segment, or have waited and are being
// answered.
func (a *Allocator) Parked() int { return int(a.parked.Load()) }

// Tags is the number of tags, including those that were removed but whose highest
// segment is remembered.
func (a *Allocator) Tags() int { return a.tags.entries.Size() }

// find returns the tag, or nil if it is not known or has no buffers, because nothing has
// happened to it yet.
func (a *Allocator) find(name string) *tag {
	if e := a.tags.find(name); e != nil {
		return e.tag.Load()
	}
	return nil
}

// activate returns the tag with its buffers, or nil if it is not known.
func (a *Allocator) activate(name string) *tag {
	if e := a.tags.find(name); e != nil {
		return a.tags.activate(e)
	}
	return nil
}

// update changes a tag and does what has to be done then. No lock may be held.
func (a *Allocator) update(t *tag, change func() []reply) {
	todo := a.apply(t, change)
	a.perform(todo)
}

// noChange is a change for the sake of what apply looks at afterwards.
func noChange() []reply { return nil }

// effects is what is left to do after a change to a tag, once no lock is held.
type effects struct {
	load    Load // to be asked for, if its Seq is set
	replies []reply
}

// apply is the frame of every change to a tag. It runs change under the tag's lock, and
// returns the load that has become due and the answers to be given.
func (a *Allocator) apply(t *tag, change func() []reply) effects {
	t.lock()
	defer t.unlock()
	before, loading := len(t.busy.parked), t.isLoading()
	replies := change()
	// Requests that are being answered count as parked until they are: whoever waits
	// until none is parked goes on to close what the answers are sent with.
	a.parked.Add(int64(len(t.busy.parked) + len(replies) - before))
	t.cur.Load().rearm()
	load := a.nextLoad(t)
	a.loading.Add(int64(t.isLoading() - loading))
	a.planVisit(t)
	return effects{load, replies}
}

// perform asks for the load and answers the requests. No lock may be held.
func (a *Allocator) perform(e effects) {
	if e.load.Seq != 0 {
		a.cfg.Load(e.load)
	}
	for _, r := range e.replies {
		r.answer(r.ids, r.err)
	}
	a.parked.Add(-int64(len(e.replies)))
}

// nextLoad returns the load to be asked for now. Its Seq is 0 if there is none.
func (a *Allocator) nextLoad(t *tag) Load {
	now := a.cfg.Clock()
	defer t.record(now)
	switch {
	case t.loadDue(now, a.cfg.ReAsk, a.cfg.MaxStep):
		return t.beginLoad(a.seq.Add(1), now, a.cfg.MaxStep)
	case t.askDue(now, a.cfg.ReAsk):
		return t.askForLoad(now, a.cfg.MaxStep)
	}
	return Load{}
}

// planVisit has Tick visit the tag when there is something for it to do.
func (a *Allocator) planVisit(t *tag) {
	at, needed := t.nextVisit(a.cfg.ReAsk)
	if at = max(at, 1); needed && (t.busy.until == 0 || at < t.busy.until) {
		t.busy.until = at
		a.agenda.add(t, at)
	}
}
