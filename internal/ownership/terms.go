package ownership

import (
	"sync"
	"sync/atomic"
)

// terms are the slots that this process owns, and until when it may answer. Reading them takes no
// lock.
type terms struct {
	now          clock
	began, ended func(slot int, epoch uint64)

	// until is the time on now from which on nothing is valid, 0 without a lease. It is set for
	// a lease only while no term of another one is left. Whoever reads it before a term's epoch
	// thus never joins the time of one lease to the term of another.
	until  atomic.Int64
	epochs [Slots]atomic.Uint64

	// lapsed is the value of until that has been found past. Until there is another one, whoever
	// looks at Term alone is spared IDs that Valid would have it burn.
	lapsed atomic.Int64

	mu    sync.Mutex // held while terms begin and end
	lease leaseID    // whose terms they are
}

// valid reports whether the term for an epoch is this process's, and time is left. The order of the three
// readings matters, see until.
func (t *terms) valid(slot int, epoch uint64) bool {
	until := t.until.Load()
	if t.now() >= until {
		t.lapsed.Store(until)
		return false
	}
	return epoch != 0 && t.epochs[slot].Load() == epoch
}

func (t *terms) term(slot int) (epoch uint64, ok bool) {
	epoch = t.epochs[slot].Load()
	return epoch, epoch != 0 && t.lapsed.Load() != t.until.Load()
}

// open is called when a lease has been made, after the one before was closed.
func (t *terms) open(l leaseID, until int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease = l
	t.until.Store(until)
}

// extend has the terms go on until then. It reports whether they had lapsed.
func (t *terms) extend(until int64) (wasPast bool) {
	return t.now() >= t.until.Swap(until)
}

// begin begins a term, if the lease under which the slot was taken still is this process's.
func (t *terms) begin(l leaseID, slot int, epoch uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lease != l {
		return false
	}
	t.finish(slot)
	t.began(slot, epoch)
	t.epochs[slot].Store(epoch)
	return true
}

// end ends the term of a slot, if there is one.
func (t *terms) end(slot int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.finish(slot)
}

// endUnless ends the term of a slot, if there is one, unless it is this one.
func (t *terms) endUnless(l leaseID, slot int, epoch uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return (t.lease != l || t.epochs[slot].Load() != epoch) && t.finish(slot)
}

func (t *terms) finish(slot int) bool {
	epoch := t.epochs[slot].Swap(0)
	if epoch != 0 {
		t.ended(slot, epoch)
	}
	return epoch != 0
}

// close ends all terms, and returns of which slots.
func (t *terms) close() (slots []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease = none
	t.until.Store(0)
	for slot := range Slots {
		if t.finish(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// owned are the slots that this process has terms of.
func (t *terms) owned() (slots []int) {
	for slot := range Slots {
		if t.epochs[slot].Load() != 0 {
			slots = append(slots, slot)
		}
	}
	return slots
}
