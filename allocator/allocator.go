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
	queue sendQueue

	refused    *xsync.Map[string, refusal] // of tags that it does not hold
	refusedAll atomic.Pointer[refusal]     // of all these tags

	// seq numbers the loads of all tags. A worker must not use a number twice,
	// not even after a restart: late grants are recognized by it. A counter
	// suffices, because loads and grants also carry the name of the instance,
	// which is random at each start.
	seq atomic.Uint64

	parked, loading, unknown, burnt atomic.Int64

	line line
}

// New returns an allocator without tags.
func New(cfg Config) *Allocator {
	cfg = cfg.withDefaults()
	a := &Allocator{
		cfg:     cfg,
		tags:    xsync.NewMap[string, *tag](),
		queue:   newSendQueue(cfg.ReAsk),
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
		t, err := a.findOrMake(r)
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
	if refused := t.busy.load.refusal; refused.current(now) != nil && r.N >= refused.least {
		return nil, refused.err
	}
	if len(t.busy.parked) >= a.cfg.MaxParkedPerTag || a.parked.Load() >= int64(a.cfg.MaxParked) {
		return nil, ErrBusy
	}
	t.park(waiter{Request: r, deadline: now + a.cfg.Wait})
	return nil, nil
}

// Withdraw drops the parked request of that From without a reply, unless its
// reply is due already. IDs that were loaded for it go to the requests behind
// it.
func (a *Allocator) Withdraw(name string, from any) {
	a.updateTag(name, func(t *tag, _ time.Duration) { t.withdraw(from) })
}

// Tick fails requests whose deadline has passed, and makes loads that brought
// no grant wait to be sent again. Deadlines are as exact as Tick is frequent:
// call it every few per cent of Config.Wait.
func (a *Allocator) Tick() {
	for _, t := range a.queue.due(a.cfg.Clock()) {
		a.update(t, func(now time.Duration) {
			t.busy.position.visit = takenOut
			t.failParked(now, ErrNoSegment)
		})
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
	now, parked, was := a.cfg.Clock(), len(t.busy.parked), t.busy.load.state
	change(now)
	if t.order != store.Trend {
		t.giveUpLoad()
	}
	if t.isNew() && len(t.busy.parked) == 0 && !t.dropped {
		a.drop(t, nil)
	}
	t.cur.Load().rearm(t.available())
	if !t.dropped {
		a.advanceLoad(t, now)
	}
	t.record(now)
	switch is := t.busy.load.state; {
	case was == idle && is != idle:
		a.loading.Add(1)
	case was != idle && is == idle:
		a.loading.Add(-1)
	}
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
	q := &a.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	replies := q.replies
	q.replies = nil
	a.parked.Add(-int64(len(replies)))
	return replies
}

// The first request for a name creates its tag. A tag is dropped
//
//   - if it is new, when no request is parked any more, or its load is refused;
//   - if it is idle (DropIdle) or removed (Remove).
//
// Nothing of a dropped tag stays, except a refusal for Config.ReAsk. A tag that
// is created again is unknown, and takes only the grant of its open load, which
// was requested after all that. So no tag uses a late grant.

// A tag without requests for an hour is dropped: most names that are used once,
// such as daily names, never come back. At 300 bytes a tag, manyTags take 30
// MB; with more of them, a minute without requests is enough.
const (
	idleCalls = 60
	manyTags  = 100_000
)

// findOrMake returns the tag of that name, or creates it, or returns the error
// for its requests for n IDs.
func (a *Allocator) findOrMake(r Request) (*tag, error) {
	name := r.Tag
	if t, ok := a.tags.Load(name); ok {
		return t, nil
	}
	refused, _ := a.refused.Load(name)
	now := a.cfg.Clock()
	if err := a.refusedAll.Load().current(now); err != nil {
		return nil, err
	}
	if err := refused.current(now); err != nil && r.N >= refused.least && (r.Kept || !refused.kept) {
		return nil, err
	}
	t, _ := a.tags.LoadOrCompute(name, func() (made *tag, full bool) {
		if a.unknown.Add(1) > int64(a.cfg.MaxUnknown) {
			a.unknown.Add(-1)
			return nil, true
		}
		made = &tag{name: name}
		made.cur.Store(&empty)
		return made, false
	})
	if t == nil {
		return nil, ErrBusy
	}
	return t, nil
}

// Remove drops a tag, with its buffer. Its parked requests get ErrDropped, not
// store.ErrNoTag: the tag may exist again by now.
func (a *Allocator) Remove(name string) {
	a.updateTag(name, func(t *tag, _ time.Duration) { a.drop(t, ErrDropped) })
}

// DropIdle drops the tags without requests for the latest 60 calls, or for one
// call if more than 100,000 tags are held, and returns their number. Call it
// once a minute.
func (a *Allocator) DropIdle() (dropped int) {
	now := a.cfg.Clock()
	for name, r := range a.refused.All() {
		if r.current(now) == nil {
			a.refused.Delete(name)
		}
	}
	calls := int8(idleCalls)
	if a.Tags() > manyTags {
		calls = 1
	}
	for _, t := range a.tags.All() {
		a.update(t, func(time.Duration) {
			if t.countIdle() >= calls {
				a.drop(t, ErrDropped)
				dropped++
			}
		})
	}
	return dropped
}

// countIdle returns for how many calls in a row nothing was requested of the
// tag. It needs mu.
func (t *tag) countIdle() int8 {
	if total := t.total(); total != t.idleTotal || len(t.busy.parked) > 0 || t.busy.load.state != idle {
		t.idleTotal, t.idleCalls = total, 0
	} else {
		t.idleCalls++
	}
	return t.idleCalls
}

// drop drops a tag. Its parked requests get err. It needs the tag's mu.
func (a *Allocator) drop(t *tag, err error) {
	t.dropped = true
	a.tags.Delete(t.name)
	if t.isNew() {
		a.unknown.Add(-1)
	}
	a.burnBuffer(t)
	t.busy.load = load{}
	t.failParked(forever, err)
}

// refusal is an error that requests get until a moment.
type refusal struct {
	err   error
	until time.Duration
	least int64 // requests for fewer IDs may succeed
	kept  bool  // requests for IDs that are not kept may succeed
}

// current returns the error, until the moment has come.
func (r refusal) current(now time.Duration) error {
	if now < r.until {
		return r.err
	}
	return nil
}

// maxRefused bounds the names whose refusals are kept. Where more are refused
// within Config.ReAsk, requests for some of them cost another load.
const maxRefused = 32_768

// addRefusal keeps the reason why the load of a dropped tag was refused.
func (a *Allocator) addRefusal(name string, r refusal) {
	if a.refused.Size() >= maxRefused {
		a.refused.Clear()
	}
	a.refused.Store(name, r)
}

// RefuseUnknown makes requests for tags that are not held fail with err for
// some time, because loaders are overloaded. It does not affect tags that are
// held.
func (a *Allocator) RefuseUnknown(err error, d time.Duration) {
	a.refusedAll.Store(&refusal{err: err, until: a.cfg.Clock() + d})
}
