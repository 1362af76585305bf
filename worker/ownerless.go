package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/ownership"
)

// ownerless are the requests for strict tags for which nobody is known who may answer them. They are
// parked here until that changes, or their deadline has passed.
type ownerless struct {
	mu      sync.Mutex
	bySlot  map[int][]*ordered
	n       int                   // in all, with those that are being looked at
	perSlot [ownership.Slots]int  // the same
	changed [ownership.Slots]bool // slots to be looked at
	ended   [ownership.Slots]bool // slots of which a term has ended
	rules   bool                  // rules have changed
	notify  chan struct{}
}

// maxOwnerlessPerSlot keeps the tags of one slot from using up the room of all.
const maxOwnerlessPerSlot = allocator.DefaultMaxParkedPerTag

func newOwnerless() *ownerless {
	return &ownerless{bySlot: make(map[int][]*ordered), notify: make(chan struct{}, 1)}
}

// add parks a request, if there is room. There is for one that was parked here before.
func (w *ownerless) add(o *ordered) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !o.rested && (w.n >= allocator.DefaultMaxParked || w.perSlot[o.slot] >= maxOwnerlessPerSlot) {
		return false
	}
	if !o.hasRoom {
		w.n++
		w.perSlot[o.slot]++
	}
	o.rested, o.hasRoom, o.listed = true, true, true
	w.bySlot[o.slot] = append(w.bySlot[o.slot], o)
	return true
}

// parked is how many requests are here, or will be looked at.
func (w *ownerless) parked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// changedSlot has the requests of a slot looked at.
func (w *ownerless) changedSlot(slot int) { w.mark(&w.changed, slot) }

// endedTerm has what is left of a slot's terms dropped.
func (w *ownerless) endedTerm(slot int) { w.mark(&w.ended, slot) }

// changedRules has others told that rules have changed.
func (w *ownerless) changedRules() {
	w.mu.Lock()
	w.rules = true
	w.mu.Unlock()
	w.wake()
}

func (w *ownerless) mark(set *[ownership.Slots]bool, slot int) {
	w.mu.Lock()
	set[slot] = true
	w.mu.Unlock()
	w.wake()
}

func (w *ownerless) wake() {
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

// takeEvents returns what has happened since the latest call: the slots of which a term has ended, and
// whether rules have changed.
func (w *ownerless) takeEvents() (ended [ownership.Slots]bool, rules bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended, w.ended = w.ended, ended
	rules, w.rules = w.rules, false
	return ended, rules
}

// takeChanged takes out the requests of slots that have changed, of all slots if all is set.
func (w *ownerless) takeChanged(all bool) (requests []*ordered) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, waiting := range w.bySlot {
		if all || w.changed[slot] {
			for _, o := range waiting {
				o.listed = false
			}
			requests = append(requests, waiting...)
			delete(w.bySlot, slot)
		}
	}
	w.changed = [ownership.Slots]bool{}
	slices.SortFunc(requests, func(a, b *ordered) int { return int(a.deadline - b.deadline) })
	return requests
}

// remove makes room for another request, after one that was taken out was looked at, unless that one was
// added once more.
func (w *ownerless) remove(o *ordered) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.listed {
		return
	}
	o.hasRoom = false
	w.n--
	w.perSlot[o.slot]--
}

// run has requests looked at, and what has happened acted upon, until ctx ends. All requests are looked
// at every now and then, for the sake of those whose time is up.
func (w *ownerless) run(ctx context.Context, every time.Duration, s *strict) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			all = true
		case <-w.notify:
		}
		ended, rules := w.takeEvents()
		if ended != [ownership.Slots]bool{} {
			s.dropEnded(ended)
		}
		if rules {
			s.owners.RulesChanged()
		}
		for _, o := range w.takeChanged(all) {
			s.dispatch(o)
			w.remove(o)
		}
	}
}
