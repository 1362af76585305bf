package ownership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// view is what the bucket holds, as far as it was read. Entries only get newer, so what a view
// proves stays proven: that a lease is over, or that a slot's revision has passed.
type view struct {
	identity string // of the bucket
	leases   map[int]sighting
	slots    [Slots]slotSighting
}

// sighting is the entry of a lease.
type sighting struct {
	leaseValue
	revision uint64
	seen     int64 // when this revision was known first, by this process's clock
	deleted  bool  // by hand, or unreadable: which life it was may not be known
}

// slotSighting is the entry of a slot; revision 0 is none.
type slotSighting struct {
	slotValue
	revision uint64
	deleted  bool  // by hand, or unreadable: whoever owned it may answer for a T
	freeAt   int64 // when this revision was first known to have no owner, by this process's clock
}

// mayLive reports whether others have ended the lease, whose process may not know.
func (s sighting) mayLive() bool { return s.Ended == lost || s.Ended == gone }

func newView() *view { return &view{leases: make(map[int]sighting)} }

// change is what an entry changes of who owns what.
type change int

const (
	nothing   change = iota
	oneSlot          // the entry is a slot's
	everybody        // a lease began or ended
)

// apply takes in an entry that came now. Older ones than it has are passed over.
func (v *view) apply(r record, now int64) (c change, slot int, err error) {
	if place, ok := number(r.key, leasePrefix); ok {
		c, err = v.applyLease(place, r, now)
		return c, 0, err
	}
	slot, ok := number(r.key, slotPrefix)
	if !ok || slot >= Slots {
		return nothing, 0, nil // the identity, or of a later version
	}
	c, err = v.applySlot(slot, r)
	return c, slot, err
}

func (v *view) applyLease(place int, r record, now int64) (change, error) {
	have := v.leases[place]
	if r.revision <= have.revision {
		return nothing, nil
	}
	value, err := decodeLease(r.value)
	if err != nil { // its process may answer for a T, as if it had renewed
		value = have.leaseValue
		value.Ended, value.Rest, value.Term = "", 0, max(value.Term, DefaultLeaseTime.Milliseconds())
		v.leases[place] = sighting{value, r.revision, now, true}
		return everybody, unreadable(r, "lease", err)
	}
	v.leases[place] = sighting{value, r.revision, now, false}
	if have.Life == value.Life && have.Ended == value.Ended {
		return nothing, nil // renewed
	}
	return everybody, nil
}

func (v *view) applySlot(slot int, r record) (change, error) {
	if r.revision <= v.slots[slot].revision {
		return nothing, nil
	}
	value, err := decodeSlot(r.value)
	if err != nil { // the next owner still raises the epoch, if that is known
		v.slots[slot] = slotSighting{slotValue: slotValue{Epoch: v.slots[slot].Epoch}, revision: r.revision, deleted: true}
		return oneSlot, unreadable(r, "slot", err)
	}
	v.slots[slot] = slotSighting{slotValue: value, revision: r.revision}
	return oneSlot, nil
}

// unreadable is the error about an entry that is neither what it should be nor deleted. It is treated
// as a deleted one all the same: a slot without an owner would be without one for ever.
func unreadable(r record, what string, err error) error {
	if len(r.value) == 0 {
		return nil
	}
	return fmt.Errorf("key %s is no %s: %.100q: %w", r.key, what, r.value, err)
}

// merge takes in a view of the same bucket. What it read later counts, but who was seen earlier
// was seen earlier.
func (v *view) merge(later *view) {
	for place, s := range later.leases {
		if s.revision > v.leases[place].revision {
			v.leases[place] = s
		}
	}
	for slot, s := range later.slots {
		if s.revision > v.slots[slot].revision {
			if s.deleted {
				s.Epoch = v.slots[slot].Epoch
			}
			v.slots[slot] = s
		}
	}
}

// alive reports whether a lease is known, and not known to be over. Somebody may have to
// end it yet.
func (v *view) alive(l leaseID) bool {
	if l == none {
		return false
	}
	s := v.leases[l.Place]
	return s.Life == l.Life && s.Ended == ""
}

// over reports whether a lease is known to be over. One that is not known is not over: the entry
// that names it may have been read before its own.
func (v *view) over(l leaseID) bool {
	s := v.leases[l.Place]
	return s.Life > l.Life || s.Life == l.Life && s.Ended != ""
}

// living returns the leases that are alive, in order.
func (v *view) living() (all []leaseID) {
	for place, s := range v.leases {
		if s.Ended == "" {
			all = append(all, leaseID{place, s.Life})
		}
	}
	slices.SortFunc(all, func(a, b leaseID) int { return cmp.Compare(a.Place, b.Place) })
	return all
}

// inUse reports whether a slot is to have an owner. One that was let go is to have none until somebody asks
// for it, like one that nobody ever had.
func (v *view) inUse(slot int) bool { return v.slots[slot].revision > 0 && !v.letGo(slot) }

// letGo reports whether the owner of a slot has let it go, and nobody is to have it.
func (v *view) letGo(slot int) bool {
	s := &v.slots[slot]
	return s.revision > 0 && s.Lease == none && s.To == none && !s.deleted
}

// names reports whether a slot has a lease for its owner, whatever has become of the lease.
func (v *view) names(l leaseID) bool {
	for slot := range v.slots {
		if v.slots[slot].Lease == l {
			return true
		}
	}
	return false
}

// lastLife returns a life of a place that is not earlier than any lease there has been. A deleted entry does
// not say which life it was; but no life is higher than the revision that it was written at, and so none
// before was higher than the one at which the entry was deleted.
func (s sighting) lastLife() uint64 {
	if s.deleted {
		return max(s.Life, s.revision)
	}
	return s.Life
}

// ownerOf returns who has a slot, or is to have it: whom it was handed over to, if that is
// alive; none if nobody.
func (v *view) ownerOf(slot int) leaseID {
	s := &v.slots[slot]
	l := s.Lease
	if l == none {
		l = s.To
	}
	if v.alive(l) {
		return l
	}
	return none
}

// mayBeTaken reports whether a slot that has an entry has no owner: it was handed over, or its
// owner's lease is over.
func (v *view) mayBeTaken(slot int) bool {
	s := &v.slots[slot]
	return s.revision > 0 && (s.Lease == none || v.over(s.Lease))
}

// list returns the leases as others may know them.
func (v *view) list() (all []Lease) {
	for _, place := range slices.Sorted(maps.Keys(v.leases)) {
		if s := v.leases[place]; s.Ended != stopped {
			all = append(all, Lease{
				Instance: s.Instance, Host: s.Host, Installation: s.Installation, Rules: s.Rules,
				Lost: s.mayLive(), Gone: s.Ended == gone, place: place, sighting: s,
			})
		}
	}
	return all
}

// vacant returns places at which a lease might be made: those whose process has ended, and those whose
// lease was lost if there are more than spare of them. If there are none, or whoever asks wants more, they are
// made up to n with new ones.
func (v *view) vacant(more bool, n int) (places []int) {
	var losers []int
	for _, place := range slices.Sorted(maps.Keys(v.leases)) {
		switch v.leases[place].Ended {
		case stopped, gone:
			places = append(places, place)
		case lost:
			losers = append(losers, place)
		}
	}
	slices.SortFunc(losers, func(a, b int) int { return cmp.Compare(v.leases[a].revision, v.leases[b].revision) })
	places = append(places, losers[:max(0, len(losers)-spare)]...)
	if len(places) > 0 && !more {
		return places
	}
	for place := 0; len(places) < n; place++ {
		if _, found := v.leases[place]; !found {
			places = append(places, place)
		}
	}
	return places
}
