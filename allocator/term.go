package allocator

import (
	"errors"
	"slices"
	"time"

	"github.com/idworker/idworker/store"
)

// ErrTerm is the answer to a parked request whose term has ended before IDs came. Whoever asked
// has to ask for another term, or somebody else.
var ErrTerm = errors.New("the term has ended")

// TakeAny is Take for a tag that may have terms. It says of which term the IDs are, 0 if of none. That may be
// one that has ended: then they must not be used, and are burnt.
func (a *Allocator) TakeAny(name string, n int64) (ids store.Segment, term uint64, ok bool) {
	e := a.tags.find(name)
	if e == nil {
		return ids, 0, false
	}
	cur := e.cur.Load()
	if cur == nil {
		return ids, 0, false
	}
	first, crossed, ok := cur.take(n)
	if crossed {
		a.update(e.tag.Load(), noChange) // but a load may have become due
	}
	return store.Segment{First: first, End: first + n}, cur.term, ok
}

// TakeIn is Take for a tag whose IDs are of terms: it returns IDs of that term only, which is not 0.
func (a *Allocator) TakeIn(name string, term uint64, n int64) (ids store.Segment, ok bool) {
	return a.take(name, term, n)
}

// TakeOrParkIn is TakeOrPark for IDs of a term, 0 for a tag without. If the tag's buffers are of
// another term, they are dropped first. A request is parked for as long as it says, Config.Wait at
// most.
//
// Errors besides those of TakeOrPark: ErrTerm, for a parked request, and for a request
// without a term if Config.Ordered says by now that the tag has terms.
func (a *Allocator) TakeOrParkIn(name string, term uint64, n int64, wait time.Duration, answer Answer) (ids []store.Segment, err error) {
	return a.TakeOrParkWhile(nil, name, term, n, wait, answer)
}

// TakeOrParkWhile is TakeOrParkIn for a request that may be withdrawn. It is wanted for as long as wanted
// says, which is asked with a lock held and must not block; nil: until it is answered.
func (a *Allocator) TakeOrParkWhile(wanted func() bool, name string, term uint64, n int64, wait time.Duration, answer Answer) (ids []store.Segment, err error) {
	if n < 1 {
		return nil, ErrCount
	}
	for {
		t, err := a.activateOrMake(name)
		if err != nil {
			return nil, err
		}
		dropped := false
		a.update(t, func() (replies []reply) {
			if dropped = t.dropped; dropped {
				return nil
			}
			if term == 0 && a.cfg.Ordered(name) {
				err = ErrTerm
				return nil
			}
			if t.term != term {
				replies = a.beginTerm(t, term)
			}
			ids, err = a.takeOrPark(t, min(wait, a.cfg.Wait), waiter{n: n, answer: answer, wanted: wanted})
			return replies
		})
		if !dropped {
			return ids, err
		}
	}
}

// EndTerms drops the buffers of the tags for which ended returns true, whose parked requests get
// ErrTerm. A load that is under way is forgotten, and what it is granted will be burnt. Ended is
// called with the tag's lock held, for tags that have buffers: with the term that they are of, 0 if
// they are of none.
func (a *Allocator) EndTerms(ended func(name string, term uint64) bool) {
	for _, t := range a.tags.listActive() {
		t.lock()
		end := ended(t.name, t.term)
		t.unlock()
		if end {
			a.update(t, func() []reply {
				if !ended(t.name, t.term) {
					return nil
				}
				return a.beginTerm(t, 0)
			})
		}
	}
}

// EndTerm does the same for one tag, whatever its term.
func (a *Allocator) EndTerm(name string) {
	if t := a.find(name); t != nil {
		a.update(t, func() []reply { return a.beginTerm(t, 0) })
	}
}

// Dropped is how many IDs in memory were never used because their term had ended.
func (a *Allocator) Dropped() int64 { return a.dropped.Load() }

// beginTerm has the tag's IDs be of a term from now on, none if it is 0. Nothing stays that was
// asked for before: what a load was asked for in another term may lie below what another process
// has answered since. It needs the tag's mu.
func (a *Allocator) beginTerm(t *tag, term uint64) []reply {
	a.dropped.Add(t.available())
	t.dropBuffers()
	t.term, t.since = term, a.seq.Add(1)
	return t.failParked(ErrTerm)
}

// The methods below need the tag's mu.

// dropBuffers drops the segments in memory and forgets the load under way. What is counted, and
// high, stay.
func (t *tag) dropBuffers() {
	t.meter.spent = t.meter.total(t.cur.Load())
	t.cur.Store(nil)
	t.busy.ready = nil
	t.busy.load.seq, t.busy.load.refusal, t.busy.load.refusals = 0, nil, 0
}

// isEarlier reports whether a grant answers a load that was asked for in an earlier term, or does not
// say which. A tag that never had a term takes both.
func (t *tag) isEarlier(seq uint64) bool { return t.since > 0 && seq <= t.since }

// park parks a request where its deadline belongs: nearly always that is the end.
func (t *tag) park(w waiter) {
	at := len(t.busy.parked)
	for at > 0 && t.busy.parked[at-1].deadline > w.deadline {
		at--
	}
	t.busy.demand += w.n
	t.busy.parked = slices.Insert(t.busy.parked, at, w)
}
