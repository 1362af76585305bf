package allocator

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/idworker/idworker/internal/priority"
	"github.com/idworker/idworker/store"
)

// Allocator holds the buffers of all known tags. Its methods are safe for
// concurrent use.
type Allocator struct {
	cfg     Config
	tags    *xsync.Map[string, *tag] // reads take no lock and allocate nothing
	agenda  agenda
	effects effects

	refused    *xsync.Map[string, refusal] // of tags that it does not hold
	refusedAll atomic.Pointer[refusal]     // of all these tags

	// seq numbers the loads of all tags. A worker must not use a number twice,
	// not even after a restart: late grants are recognized by it. A counter
	// suffices, because loads and grants also carry the name of the instance,
	// which is random at each start.
	seq atomic.Uint64

	parked, loading, unknown, burnt atomic.Int64
}

// New returns an allocator without tags.
func New(cfg Config) *Allocator {
	a := &Allocator{
		cfg:     cfg.withDefaults(),
		tags:    xsync.NewMap[string, *tag](),
		effects: effects{ready: make(chan struct{}, 1)},
		refused: xsync.NewMap[string, refusal](),
	}
	a.refusedAll.Store(&refusal{})
	return a
}

// TakeOrPark is for a request that Take could not answer. It returns the IDs,
// if they are buffered after all, or an error. If it returns neither, the
// request is parked: Effects returns its reply when a grant brings the IDs,
// when the load is refused, or when the deadline passes. That may be before
// TakeOrPark returns.
//
// Errors: ErrCount, ErrBusy, ErrStrict, and the error of a recent refusal;
// parked requests may also get ErrNoSegment.
func (a *Allocator) TakeOrPark(r Request) (ids []store.Segment, err error) {
	if r.N < 1 {
		return nil, ErrCount
	}
	for {
		t, err := a.findOrMake(r.Tag, r.N)
		if err != nil {
			return nil, err
		}
		if a.update(t, func(now time.Duration) { ids, err = a.takeOrPark(t, r, now) }) {
			return ids, err
		}
	}
}

// takeOrPark does the work of TakeOrPark under the tag's lock.
func (a *Allocator) takeOrPark(t *tag, r Request, now time.Duration) ([]store.Segment, error) {
	t.idleCalls = -1
	if r.Kept && t.order == store.Strict {
		return nil, ErrStrict
	}
	if ids := t.takeFromAll(r.N); ids != nil {
		return ids, nil
	}
	if err := t.busy.load.refusal.current(now); err != nil {
		return nil, err
	}
	if len(t.busy.parked) >= a.cfg.MaxParkedPerTag || a.parked.Load() >= int64(a.cfg.MaxParked) {
		return nil, ErrBusy
	}
	t.park(waiter{Request: r, deadline: now + a.cfg.Wait})
	return nil, nil
}

// Withdraw drops the parked request of that From without a reply, unless its
// reply is among the effects already. IDs that were loaded for it go to the
// requests behind it.
func (a *Allocator) Withdraw(name string, from any) {
	a.updateTag(name, func(t *tag, _ time.Duration) { t.withdraw(from) })
}

// Tick fails requests whose deadline has passed and repeats loads that brought
// no grant. Deadlines are as exact as Tick is frequent: call it every few per
// cent of Config.Wait.
func (a *Allocator) Tick() {
	for _, t := range a.agenda.take(a.cfg.Clock()) {
		a.update(t, func(now time.Duration) { t.failParked(now, ErrNoSegment) })
	}
}

// Loading is the number of loads that are under way.
func (a *Allocator) Loading() int { return int(a.loading.Load()) }

// Parked is the number of requests that wait for a segment, or whose replies
// Effects has not returned yet.
func (a *Allocator) Parked() int { return int(a.parked.Load()) }

// Tags is the number of tags held.
func (a *Allocator) Tags() int { return a.tags.Size() }

// Burnt is the number of IDs that were granted, and then discarded because a
// strict load needed fewer or because their tag was dropped. Grants that were
// discarded as a whole are not counted.
func (a *Allocator) Burnt() int64 { return a.burnt.Load() }

// update is the frame of every change to a tag. It runs change under the tag's
// lock, and adds the replies, and a load that has become due, to the effects.
// So a tag's replies are in the order of its changes. It does nothing, and
// returns false, if the tag was dropped.
func (a *Allocator) update(t *tag, change func(now time.Duration)) bool {
	t.lock()
	defer t.unlock()
	if t.dropped {
		return false
	}
	now, parked, loading := a.cfg.Clock(), len(t.busy.parked), t.loading()
	change(now)
	t.giveUpLoad()
	if t.order == "" && len(t.busy.parked) == 0 && !t.dropped {
		a.drop(t, nil)
	}
	t.cur.Load().rearm()
	load := a.nextLoad(t, now)
	a.loading.Add(t.loading() - loading)
	a.parked.Add(int64(len(t.busy.parked) + len(t.busy.replies) - parked))
	a.agenda.plan(t)
	a.effects.add(load, t.busy.replies)
	t.busy.replies = nil
	return true
}

// updateTag is update for the tag of that name, if it is held.
func (a *Allocator) updateTag(name string, change func(t *tag, now time.Duration)) {
	if t, ok := a.tags.Load(name); ok {
		a.update(t, func(now time.Duration) { change(t, now) })
	}
}

// nextLoad returns the load to request now, for the first time or again. Its
// Seq is 0 if there is none.
func (a *Allocator) nextLoad(t *tag, now time.Duration) Load {
	defer t.record(now)
	if t.loadDue(now, a.cfg.MaxStep) {
		t.beginLoad(a.seq.Add(1), now, a.cfg.MaxStep)
	}
	if !t.requestDue(now) {
		return Load{}
	}
	l := &t.busy.load
	l.try++
	l.due, l.urgent, l.paused = now+t.pause(a.cfg.ReAsk), t.underfilled(), false
	return t.currentLoad(now, a.cfg.MaxStep)
}

// Effects are actions for the allocator's owner. Config.MaxParked bounds the
// replies, but each tag adds up to a load a second. So the owner must keep
// calling.
type Effects struct {
	Loads   []Load  // to be requested; a load may be there more than once
	Replies []Reply // to be sent, in this order
}

// Reply answers a parked request: with all its IDs, in ascending segments, or
// with an error.
type Reply struct {
	From any // the request's
	IDs  []store.Segment
	Err  error
}

// effects collects the result of the next call of Effects.
type effects struct {
	mu      sync.Mutex
	pending Effects
	ready   chan struct{}
}

// add adds a load, if its Seq is set, and replies. The tag's lock is held,
// which keeps its replies in order.
func (e *effects) add(l Load, replies []Reply) {
	if l.Seq == 0 && len(replies) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.Seq != 0 {
		e.pending.Loads = append(e.pending.Loads, l)
	}
	e.pending.Replies = append(e.pending.Replies, replies...)
	select {
	case e.ready <- struct{}{}:
	default:
	}
}

// Ready receives when Effects has something to return, and may do so when it
// has nothing.
func (a *Allocator) Ready() <-chan struct{} { return a.effects.ready }

// Effects returns the actions since the last call. A single goroutine calls it
// and performs them: it sends the replies, and each load after a call of
// CurrentLoad.
func (a *Allocator) Effects() Effects {
	a.effects.mu.Lock()
	defer a.effects.mu.Unlock()
	todo := a.effects.pending
	a.effects.pending = Effects{}
	a.parked.Add(-int64(len(todo.Replies)))
	return todo
}

// agenda holds the tags that Tick has to visit, by the moment at which there is
// something to do: a request's deadline, or the next try of a load. Tick costs
// nothing for the tags whose moment has not come, of which there may be 100,000
// in an outage.
type agenda struct {
	mu    sync.Mutex
	queue priority.Queue[*tag]
}

// plan puts the tag in its place, or takes it out if there is nothing to do. It
// needs the tag's mu.
func (a *agenda) plan(t *tag) {
	b, at := t.busy, t.nextVisit()
	if b.visit == at {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.place.Queued() {
		a.queue.Remove(&b.place)
	}
	if b.visit, b.place.Value = at, t; at > 0 {
		a.queue.Put(&b.place, at)
	}
}

// take removes the tags that have to be visited by now, and returns them.
func (a *agenda) take(now time.Duration) (due []*tag) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.queue.Len() > 0 && a.queue.First().At() <= now {
		first := a.queue.First()
		due = append(due, first.Value)
		a.queue.Remove(first)
	}
	return due
}
