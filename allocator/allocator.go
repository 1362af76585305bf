package allocator

import (
	"sync"
	"sync/atomic"

	"github.com/idworker/idworker/store"
)

// Allocator holds the buffers of all tags. Its methods are safe for concurrent
// use.
type Allocator struct {
	cfg    Config
	tags   atomic.Pointer[map[string]*tag] // copied on write
	edit   sync.Mutex                      // held by who writes tags
	busy   busySet
	seq    atomic.Uint64
	parked atomic.Int64
}

// Answer is called once for a parked request: with as many IDs as were asked for, in
// ascending segments, or with an error.
type Answer func(ids []store.Segment, err error)

// New returns an allocator without tags.
func New(cfg Config) *Allocator {
	a := &Allocator{cfg: cfg.withDefaults()}
	a.tags.Store(&map[string]*tag{})
	return a
}

// Take returns n IDs of the tag if the current segment has them, which is the
// rule. Otherwise ok is false, nothing has happened, and the request goes to Ask.
func (a *Allocator) Take(name string, n int64) (ids store.Segment, ok bool) {
	t := a.find(name)
	if t == nil {
		return ids, false
	}
	cur := t.cur.Load()
	if cur == nil {
		return ids, false
	}
	first, crossed, ok := cur.take(n)
	if crossed {
		a.update(t, passedMark)
	}
	return store.Segment{First: first, End: first + n}, ok
}

// Ask is for a request for n IDs that Take could not answer. It returns the IDs, if
// they are in memory after all, or an error; or neither, and then the request is
// parked, and answer is called when a grant brings the IDs or the deadline passes.
// That may be before Ask returns.
//
// Errors: store.ErrNoTag, store.ErrExhausted, ErrBusy, ErrCount; parked requests
// may also get ErrNoSegment.
func (a *Allocator) Ask(name string, n int64, answer Answer) (ids []store.Segment, err error) {
	if n < 1 {
		return nil, ErrCount
	}
	t := a.find(name)
	if t == nil {
		return nil, store.ErrNoTag
	}
	a.update(t, func() []reply {
		ids, err = a.drawOrPark(t, n, answer)
		return nil
	})
	return ids, err
}

// drawOrPark does the work of Ask under the tag's lock.
func (a *Allocator) drawOrPark(t *tag, n int64, answer Answer) ([]store.Segment, error) {
	if t.configured == 0 { // removed since it was found
		return nil, store.ErrNoTag
	}
	if ids := t.draw(n); ids != nil {
		return ids, nil
	}
	now := a.cfg.Clock()
	if err := t.refused(now, a.cfg.ReAsk); err != nil {
		return nil, err
	}
	if len(t.parked) >= a.cfg.MaxParkedPerTag || a.parked.Load() >= int64(a.cfg.MaxParked) {
		return nil, ErrBusy
	}
	t.demand += n
	t.parked = append(t.parked, waiter{n, now + a.cfg.Wait, answer})
	return nil, nil
}

// Grant brings a segment that the store has reserved for this process, and reports
// whether it is used. It is burnt if the tag is gone, if it does not lie above
// everything granted before, or if there is no room for it.
func (a *Allocator) Grant(name string, s store.Segment) (used bool) {
	t := a.find(name)
	if t == nil || !s.Valid() {
		return false
	}
	a.update(t, func() []reply {
		if t.configured == 0 || s.First < t.high {
			return nil
		}
		t.loadSeq = 0 // whichever load it answers, if there is room or not
		used = t.install(s)
		return t.serve()
	})
	return used
}

// Refuse says that the store will not serve load seq, for a reason that asking
// again does not mend: store.ErrNoTag or store.ErrExhausted.
func (a *Allocator) Refuse(name string, seq uint64, err error) {
	if t := a.find(name); t != nil {
		a.update(t, func() []reply { return t.refuse(seq, err, a.cfg.Clock()) })
	}
}

// Tick ends what is past its deadline and repeats loads that brought no grant.
// Called every few per cent of Config.Wait, it keeps deadlines that exact.
func (a *Allocator) Tick() {
	now := a.cfg.Clock()
	for _, t := range a.busy.list() {
		a.update(t, func() []reply { return t.expire(now) })
	}
}

// Asking reports whether load seq of the tag is still under way.
func (a *Allocator) Asking(name string, seq uint64) bool {
	t := a.find(name)
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loadSeq == seq
}

// Parked is the number of requests that wait for a segment, or are being answered
// after they did.
func (a *Allocator) Parked() int { return int(a.parked.Load()) }

// Tags is the number of tags that there are, and of those that were removed but whose
// highest segment is remembered.
func (a *Allocator) Tags() int { return len(*a.tags.Load()) }

// find returns the tag, or nil.
func (a *Allocator) find(name string) *tag { return (*a.tags.Load())[name] }

// update is the frame of every change to a tag: change runs under the tag's lock;
// then the loads that have become due are asked for and the answers given, with no
// lock held.
func (a *Allocator) update(t *tag, change func() []reply) {
	t.mu.Lock()
	before := len(t.parked)
	replies := change()
	// Those that are being answered count until they are: who waits for no request
	// to be parked goes on to close what the answers are sent with.
	a.parked.Add(int64(len(t.parked) + len(replies) - before))
	load, asked := a.nextLoad(t)
	a.watch(t)
	t.mu.Unlock()
	if asked {
		a.cfg.Load(load)
	}
	a.give(replies)
	a.parked.Add(-int64(len(replies)))
}

// passedMark is the change of a Take that passed the mark: there is none, but a load
// may have become due.
func passedMark() []reply { return nil }

// nextLoad returns the load to be asked for now, if there is one.
func (a *Allocator) nextLoad(t *tag) (Load, bool) {
	now := a.cfg.Clock()
	switch {
	case t.due(now, a.cfg.ReAsk):
		return t.ask(a.seq.Add(1), now, a.cfg.MaxStep), true
	case t.overdue(now, a.cfg.ReAsk):
		return t.askAgain(now, a.cfg.MaxStep), true
	}
	return Load{}, false
}

// watch has Tick look at the tag for as long as there is something to look at.
func (a *Allocator) watch(t *tag) {
	if busy := len(t.parked) > 0 || t.loadSeq != 0; busy != t.watched {
		t.watched = busy
		a.busy.set(t, busy)
	}
}

// give answers requests. No lock may be held.
func (a *Allocator) give(replies []reply) {
	for _, r := range replies {
		r.answer(r.ids, r.err)
	}
}
