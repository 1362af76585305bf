package allocator

import (
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/idworker/idworker/store"
)

// Allocator holds the buffers of all known tags. Its methods are safe for
// concurrent use.
type Allocator struct {
	cfg   Config
	tags  *xsync.Map[string, *tag] // reads take no lock and allocate nothing
	queue queue

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
	cfg = cfg.withDefaults()
	a := &Allocator{
		cfg:     cfg,
		tags:    xsync.NewMap[string, *tag](),
		queue:   newQueue(cfg.ReAsk),
		refused: xsync.NewMap[string, refusal](),
	}
	a.refusedAll.Store(&refusal{})
	return a
}

// TakeOrPark is for a request that Take could not answer. It returns the IDs,
// if they are buffered after all, or an error. If it returns neither, the
// request is parked: Replies returns its reply when a grant brings the IDs, when
// the load is refused, or when the deadline passes. That may be before
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
// reply is due already. IDs that were loaded for it go to the
// requests behind it.
func (a *Allocator) Withdraw(name string, from any) {
	a.updateTag(name, func(t *tag, _ time.Duration) { t.withdraw(from) })
}

// Tick fails requests whose deadline has passed, and makes loads that brought
// no grant wait to be sent again. Deadlines are as exact as Tick is frequent: call it every few per
// cent of Config.Wait.
func (a *Allocator) Tick() {
	for _, t := range a.queue.due(a.cfg.Clock()) {
		a.update(t, func(now time.Duration) { t.failParked(now, ErrNoSegment) })
	}
}

// Loading is the number of loads that are under way.
func (a *Allocator) Loading() int { return int(a.loading.Load()) }

// Parked is the number of requests that wait for a segment, or whose replies
// Replies has not returned yet.
func (a *Allocator) Parked() int { return int(a.parked.Load()) }

// Tags is the number of tags held.
func (a *Allocator) Tags() int { return a.tags.Size() }

// Burnt is the number of IDs that were granted, and then discarded because a
// strict load needed fewer or because their tag was dropped. Grants that were
// discarded as a whole are not counted.
func (a *Allocator) Burnt() int64 { return a.burnt.Load() }

// update is the frame of every change to a tag. It runs change under the tag's
// lock, moves the tag's load on, and brings the queue in line. So a tag's
// replies are in the order of its changes. It does nothing, and returns false,
// if the tag was dropped.
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
	if !t.dropped {
		a.advanceLoad(t, now)
	}
	t.record(now)
	a.loading.Add(t.loading() - loading)
	a.parked.Add(int64(len(t.busy.parked) + len(t.busy.replies) - parked))
	a.queue.settle(t)
	return true
}

// updateTag is update for the tag of that name, if it is held.
func (a *Allocator) updateTag(name string, change func(t *tag, now time.Duration)) {
	if t, ok := a.tags.Load(name); ok {
		a.update(t, func(now time.Duration) { change(t, now) })
	}
}

// Reply answers a parked request: with all its IDs, in ascending segments, or
// with an error.
type Reply struct {
	From any // the request's
	IDs  []store.Segment
	Err  error
}

// Ready receives when Replies or Send may have something to return.
func (a *Allocator) Ready() <-chan struct{} { return a.queue.ready }

// Replies returns the replies since the last call. A single goroutine calls it,
// and sends them in this order.
func (a *Allocator) Replies() []Reply {
	replies := a.queue.takeReplies()
	a.parked.Add(-int64(len(replies)))
	return replies
}
