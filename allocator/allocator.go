package allocator

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/idworker/idworker/store"
)

// Allocator holds the buffers of all tags in memory. Its methods are safe for
// concurrent use.
type Allocator struct {
	cfg     Config
	tags    *xsync.Map[string, *tag] // reads take no lock and allocate nothing
	agenda  agenda
	refused refusals

	// seq numbers the loads of all tags. A worker must not use a number twice, not
	// even after a restart: late grants are recognized by it. A counter suffices,
	// because loads and grants also carry the name of the instance, which is random
	// at each start.
	seq atomic.Uint64

	parked, loading, unknown, burnt atomic.Int64
}

// New returns an allocator without tags.
func New(cfg Config) *Allocator {
	return &Allocator{cfg: cfg.withDefaults(), tags: xsync.NewMap[string, *tag]()}
}

// Take returns n IDs of the tag if the current segment has them, as it usually
// does; a strict tag has none. Otherwise ok is false, nothing has happened, and the
// request goes to TakeOrPark.
func (a *Allocator) Take(name string, n int64) (ids store.Segment, ok bool) {
	t, ok := a.tags.Load(name)
	if !ok {
		return ids, false
	}
	cur := t.cur.Load()
	if cur == nil {
		return ids, false
	}
	first, crossed, ok := cur.take(n)
	if crossed {
		a.update(t, noChange) // but a load may have become due
	}
	return store.Segment{First: first, End: first + n}, ok
}

// TakeOrPark is for a request that Take could not answer. It returns the IDs, if
// they are in memory after all, or an error. If it returns neither, the request is
// parked: its Answer is called when a grant brings the IDs, when the load is
// refused, or when the deadline passes. That may be before TakeOrPark returns.
//
// Errors: ErrCount, ErrBusy, ErrStrict, and the error of a recent refusal; parked
// requests may also get ErrNoSegment.
func (a *Allocator) TakeOrPark(name string, r Request) (ids []store.Segment, err error) {
	if r.N < 1 {
		return nil, ErrCount
	}
	for {
		t, err := a.findOrMake(name)
		if err != nil {
			return nil, err
		}
		dropped := false
		a.update(t, func() []reply {
			if dropped = t.dropped; !dropped {
				ids, err = a.takeOrPark(t, r)
			}
			return nil
		})
		if !dropped {
			return ids, err
		}
	}
}

// takeOrPark does the work of TakeOrPark under the tag's lock.
func (a *Allocator) takeOrPark(t *tag, r Request) ([]store.Segment, error) {
	t.idleCalls = -1
	if r.Kept && t.order == store.Strict {
		return nil, ErrStrict
	}
	if ids := t.takeFromAll(r.N); ids != nil {
		return ids, nil
	}
	now := a.cfg.Clock()
	if err := t.busy.load.currentRefusal(now, a.cfg.ReAsk); err != nil {
		return nil, err
	}
	if len(t.busy.parked) >= a.cfg.MaxParkedPerTag || a.parked.Load() >= int64(a.cfg.MaxParked) {
		return nil, ErrBusy
	}
	t.park(waiter{Request: r, deadline: now + a.cfg.Wait})
	return nil, nil
}

// Withdraw drops the parked requests of the tag whose callers have gone, without
// an answer. IDs that were loaded for them go to the requests behind them.
func (a *Allocator) Withdraw(name string) {
	if t, ok := a.tags.Load(name); ok {
		a.update(t, t.dropUnwanted)
	}
}

// Tick fails requests whose deadline has passed and repeats loads that brought no
// grant. Deadlines are as exact as Tick is frequent: call it every few per cent of
// Config.Wait.
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

// Loading is the number of loads that are under way.
func (a *Allocator) Loading() int { return int(a.loading.Load()) }

// Parked is the number of requests that wait for a segment, or are being answered.
func (a *Allocator) Parked() int { return int(a.parked.Load()) }

// Tags is the number of tags in memory.
func (a *Allocator) Tags() int { return a.tags.Size() }

// Burnt is the number of IDs that were granted, and then discarded because a strict
// load needed fewer or because their tag left memory. Grants that were discarded as
// a whole are not counted.
func (a *Allocator) Burnt() int64 { return a.burnt.Load() }

// update changes a tag and does the work that results. No lock may be held.
func (a *Allocator) update(t *tag, change func() []reply) {
	todo := a.apply(t, change)
	if todo.load.Seq != 0 {
		a.cfg.Load(todo.load)
	}
	for _, r := range todo.replies {
		r.answer(r.ids, r.err)
	}
	a.parked.Add(-int64(len(todo.replies)))
}

// noChange is a change that only makes apply look at the tag.
func noChange() []reply { return nil }

// effects is the work that is left after a change to a tag, for when no lock is held.
type effects struct {
	load    Load // to be requested, if its Seq is set
	replies []reply
}

// apply is the frame of every change to a tag. It runs change under the tag's lock,
// and returns the load that has become due and the answers to be given.
func (a *Allocator) apply(t *tag, change func() []reply) (todo effects) {
	t.lock()
	defer t.unlock()
	before, loading := len(t.busy.parked), t.isLoading()
	todo.replies = change()
	// Requests that are being answered count as parked until they are: a worker
	// that stops waits until none is parked before it closes its connections.
	a.parked.Add(int64(len(t.busy.parked) + len(todo.replies) - before))
	t.giveUpLoad()
	if t.order == "" && len(t.busy.parked) == 0 {
		a.drop(t, nil)
	}
	t.cur.Load().rearm()
	todo.load = a.nextLoad(t)
	a.loading.Add(int64(t.isLoading() - loading))
	a.planVisit(t)
	return todo
}

// nextLoad returns the load to be requested now. Its Seq is 0 if there is none.
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

// planVisit puts the tag on the agenda of Tick for when there is something to do.
func (a *Allocator) planVisit(t *tag) {
	at, needed := t.nextVisit(a.cfg.ReAsk)
	if at = max(at, 1); needed && (t.busy.until == 0 || at < t.busy.until) {
		t.busy.until = at
		a.agenda.add(t, at)
	}
}
