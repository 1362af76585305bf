package ownership

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// decision is what one look at the view comes to.
type decision struct {
	o      *Ownership
	now    int64
	self   leaseID
	living []leaseID
	active []leaseID // those of them who do not rest
	plan   plan
	todo   []func(context.Context)
	wait   int64 // until there may be more to do, if nothing changes before
}

// The waits of those who are not first in line, as parts of T.
const (
	gracePerTerm = 32 // for whoever is to take a slot
	lagsPerTerm  = 32 // for whoever is to end a lease
	maxRank      = 4  // no one waits for more than that
)

// decide returns what is to be done now, and when to look again. A process whose own
// lease has run out does nothing: it may be the one that is cut off.
func (o *Ownership) decide() (todo []func(context.Context), wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life == nil || !o.view.alive(o.life.id) {
		return nil, o.cfg.LeaseTime // a change nudges
	}
	strict := o.cfg.Strict()
	if strict && o.rests {
		o.renewNow() // first; then it may take slots
	}
	d := decision{o: o, now: o.now(), self: o.life.id, wait: int64(o.cfg.LeaseTime)}
	if d.now >= o.terms.until.Load() {
		return nil, o.part(retriesPerTerm)
	}
	d.findLiving()
	for _, l := range d.living {
		d.endRunOut(l)
	}
	switch {
	case !strict:
		d.letGoAll()
	case !o.rests:
		d.shareOut()
	}
	return d.todo, max(time.Duration(d.wait), time.Millisecond)
}

// findLiving finds out who is alive, and who of them does not rest.
func (d *decision) findLiving() {
	d.living = d.o.view.living()
	for _, l := range d.living {
		if !d.o.view.leases[l.Place].rests() {
			d.active = append(d.active, l)
		}
	}
}

// shareOut takes and hands over what is this process's to.
func (d *decision) shareOut() {
	d.plan = share(d.reliable(), d.o.view.inUse, d.o.view.ownerOf)
	for slot := range Slots {
		d.takeSlot(slot)
	}
	for slot := range Slots {
		d.giveSlot(slot)
	}
}

// letGoAll lets go what this process has, or may have: there is no strict tag.
func (d *decision) letGoAll() {
	for slot := range Slots {
		s := d.o.view.slots[slot]
		d.o.forgetWish(slot)
		d.o.acts.forced[slot] = false
		if s.Lease != d.self || !d.idle(d.o.acts.slots[slot]) {
			continue
		}
		d.o.acts.slots[slot] = try{busy: true}
		d.todo = append(d.todo, func(ctx context.Context) { d.o.give(ctx, none, slot, s) })
	}
}

// forgetWish forgets that a slot was asked for, unless there are strict tags again: then it may have been
// asked for just now.
func (o *Ownership) forgetWish(slot int) {
	if o.wanted[slot].Load() {
		o.wanted[slot].Store(o.cfg.Strict())
	}
}

// reliable are those of the active who seem to do their part: they have renewed their leases lately, and
// took what was left to them. The others keep what they have, or do not, but get nothing.
func (d *decision) reliable() (all []leaseID) {
	for _, l := range d.active {
		s := d.o.view.leases[l.Place]
		if l == d.self || !s.deleted && d.now-s.seen < int64(s.term()/2) && d.notBefore(d.o.acts.shunned[l], 0) {
			all = append(all, l)
		}
	}
	return all
}

// shun has a process get nothing for a while, for it did not take what was left to it. If it goes
// on like that, it is not among the reliable any more, for it does not renew its lease either.
func (d *decision) shun(l leaseID) {
	d.o.acts.shunned[l] = d.now + int64(d.o.part(callsPerTerm))
	d.o.log.Debug("a process has not taken a slot that was left to it", zap.Int("place", l.Place))
}

// notBefore reports whether d ns have passed since a time, and has decide called again when they have.
func (d *decision) notBefore(since int64, ns time.Duration) bool {
	left := int64(ns) - (d.now - since)
	if left > 0 {
		d.wait = min(d.wait, left)
	}
	return left <= 0
}

// idle reports whether a write is neither under way nor to be tried again later only.
func (d *decision) idle(t try) bool { return !t.busy && d.notBefore(t.retry, 0) }

// endRunOut ends a lease whose revision has been known for as long as its process may be silent, which is
// never less than its T.
func (d *decision) endRunOut(l leaseID) {
	s, t := d.o.view.leases[l.Place], d.o.acts.places[l.Place]
	since, patience := d.mayBeSilent(s)
	if l == d.self || !d.idle(t) || !d.notBefore(since, patience) {
		return
	}
	line := d.active
	if d.o.rests {
		line = d.living
	}
	lag := time.Duration(min(rank(line, d.self, l, Slots+l.Place), maxRank)) * d.o.part(lagsPerTerm)
	if !d.notBefore(since, patience+lag) {
		return
	}
	d.o.acts.places[l.Place] = try{busy: true}
	s.Life = s.lastLife()
	d.todo = append(d.todo, func(ctx context.Context) { d.o.end(ctx, l.Place, s) })
}

// wakings is how many T a process may take to notice that it has to rest no more.
const wakings = 2

// mayBeSilent says for how long a process may be silent, and since when. One that rests is to wake up once
// there is a strict tag: who is active waits no longer for it than that takes. It would be safe not to
// wait for more than its T.
func (d *decision) mayBeSilent(s sighting) (since int64, patience time.Duration) {
	switch {
	case !s.rests():
		return s.seen, s.term()
	case d.o.rests:
		return s.seen, max(s.rest(), s.term())
	default:
		return max(s.seen, d.o.activeSince), wakings * s.term()
	}
}

// takeSlot takes a slot if that is this process's to do.
func (d *decision) takeSlot(slot int) {
	s := d.o.view.slots[slot]
	if !d.idle(d.o.acts.slots[slot]) || !d.due(slot, s) {
		return
	}
	d.o.acts.slots[slot] = try{busy: true}
	d.todo = append(d.todo, func(ctx context.Context) { d.o.take(ctx, d.self, slot, s) })
}

// due reports whether a slot is to be taken by this process now.
func (d *decision) due(slot int, s slotSighting) bool {
	switch {
	case s.revision == 0:
		return d.o.wanted[slot].Load() && d.mayTakeNew()
	case d.o.view.letGo(slot):
		return d.o.wanted[slot].Load()
	case s.Lease == d.self:
		return d.o.terms.epochs[slot].Load() != s.Epoch // the answer of a write was lost
	case !d.o.view.mayBeTaken(slot):
		return false
	}
	if s.freeAt == 0 {
		s.freeAt = d.now
		d.o.view.slots[slot].freeAt = d.now
	}
	if s.deleted && !d.notBefore(s.freeAt, d.o.cfg.LeaseTime) {
		return false
	}
	first := d.plan[slot]
	if first == d.self {
		return true
	}
	late := d.notBefore(s.freeAt, time.Duration(1+min(rank(d.active, d.self, first, slot), maxRank))*d.o.part(gracePerTerm))
	if late {
		d.shun(first)
	}
	return late
}

// mayTakeNew reports whether a slot without an entry may be taken. In a bucket that was made
// again, the owners of before may still answer.
func (d *decision) mayTakeNew() bool {
	return d.o.agreed || d.notBefore(d.o.since, d.o.cfg.LeaseTime)
}

// giveSlot hands a slot over if another process is to have it. One slot at a time, lest many of
// them have no owner for a moment.
func (d *decision) giveSlot(slot int) {
	a, s := &d.o.acts, d.o.view.slots[slot]
	to := d.plan[slot]
	forced := a.forced[slot]
	if forced {
		to = d.another(slot)
	}
	if s.Lease != d.self || d.o.terms.epochs[slot].Load() != s.Epoch || to == d.self || to == none ||
		!d.idle(a.slots[slot]) || !forced && !d.givenIsTaken() {
		return
	}
	a.forced[slot], a.slots[slot] = false, try{busy: true}
	a.given = handOver{slot, to, s.Epoch, d.now + int64(d.o.part(callsPerTerm))}
	d.todo = append(d.todo, func(ctx context.Context) { d.o.give(ctx, to, slot, s) })
}

// givenIsTaken reports whether somebody has taken the slot that was handed over last, or does not.
func (d *decision) givenIsTaken() bool {
	g := &d.o.acts.given
	s := &d.o.view.slots[g.slot]
	switch {
	case g.epoch == 0:
		return true
	case s.Epoch > g.epoch && s.Lease == g.to:
	case s.Epoch > g.epoch || d.notBefore(g.until, 0):
		d.shun(g.to)
	default:
		return false
	}
	g.epoch = 0
	return true
}

// another returns the first of the others in the line of a slot, none if there are none.
func (d *decision) another(slot int) (first leaseID) {
	for _, l := range d.active {
		if l != d.self && (first == none || weight(l, slot) > weight(first, slot)) {
			first = l
		}
	}
	return first
}
