package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// owners says who answers for a slot; it is an [ownership.Ownership].
type owners interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Want(slot int)
	Owner(slot int) (instance string, known bool)
	Term(slot int) (epoch uint64, ok bool)
	Valid(slot int, epoch uint64) bool
	RulesChanged()
	Leases() []ownership.Lease
}

// strict is the part of a worker that answers requests for strict tags, or passes them on to their
// owner. doc.go has the argument.
type strict struct {
	processInfo
	owners    owners
	alloc     *allocator.Allocator
	late      frame // of requests that are not answered at once
	ownerless *ownerless
	inbox     *forwardInbox
	absent    *nats.Subscription // of what the server says of owners that are not there
	onTheWay  onTheWay
	terms     [ownership.Slots]atomic.Uint64 // what the allocator calls the present term of a slot
	term      atomic.Uint64                  // the latest of these
	heirs     atomic.Pointer[[]string]       // who may get the requests when this process has stopped owning

	forwarded, received, parked, burnt atomic.Int64
}

// openStrict makes the part, for an allocator that asks it which tags are strict.
func openStrict(ctx context.Context, p processInfo, alloc *allocator.Allocator, figures *requestFigures) (*strict, error) {
	if err := resource.Ensure(ctx, p.js, ownership.Bucket(p.cfg.Prefix, p.cfg.Replicas)); err != nil {
		return nil, fmt.Errorf("owners of strict tags: %w", err)
	}
	s := newStrict(p, alloc, figures)
	host, _ := os.Hostname() // only informs people
	owners, err := ownership.Open(ctx, ownership.Config{
		JS: p.js, Prefix: p.cfg.Prefix, Instance: p.instance, Installation: p.installation.ID, Host: host,
		LeaseTime: p.cfg.OwnerLease,
		Rules:     p.rules.Revision,
		Strict:    p.rules.AnyStrict,
		Began:     s.beginTerm, Ended: s.endTerm, Changed: s.ownerless.changedSlot,
		Log: p.cfg.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("owners of strict tags: %w", err)
	}
	s.owners = owners
	return s, nil
}

func newStrict(p processInfo, alloc *allocator.Allocator, figures *requestFigures) *strict {
	s := &strict{processInfo: p, alloc: alloc, late: newFrame(p.cfg, new(waitingLine), figures), ownerless: newOwnerless()}
	s.inbox = newForwardInbox(s, figures)
	p.rules.Changed = s.rulesChanged
	return s
}

// start returns when requests that are passed on reach the process, and it may own slots.
func (s *strict) start(ctx context.Context, background *goroutines) error {
	background.start(func(ctx context.Context) {
		s.ownerless.run(ctx, s.cfg.Wait/ticksPerWait, s)
	})
	s.onTheWay.inbox = s.cfg.Requests.NewInbox() + "."
	background.start(func(ctx context.Context) { s.onTheWay.run(ctx, s.cfg.Requests, s.cfg.Wait) })
	var err error
	s.absent, err = s.cfg.Requests.Subscribe(s.onTheWay.inbox+"*", s.ownerAbsent)
	if err == nil {
		err = s.inbox.open(ctx)
	}
	if err != nil {
		s.inbox.close()
		return fmt.Errorf("subscribe to requests for strict tags: %w", err)
	}
	if err := withTimeout(ctx, s.owners.Start); err != nil {
		return errors.Join(fmt.Errorf("owners of strict tags: %w", err), s.stop())
	}
	// Whoever makes a tag strict waits for those that have a lease. What became strict before this
	// process had one is known from here on.
	if err := patiently(ctx, s.cfg.Log, s.rules.CatchUp); err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

// stop hands over all slots, and passes on what was parked to another process, if there is one. What
// comes from others before they know of it is passed on too.
func (s *strict) stop() error {
	s.chooseHeirs()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := s.owners.Stop(ctx)
	s.inbox.close()
	return err
}

// close is for when no request is parked any more.
func (s *strict) close() error {
	if s.absent == nil {
		return nil
	}
	return unsubscribe(s.absent)
}

// chooseHeirs chooses the processes that may know who owns what when this one does not any more. Some of
// them may have died just now.
func (s *strict) chooseHeirs() {
	var heirs []string
	for _, l := range s.owners.Leases() {
		if !l.Lost && l.Instance != s.instance {
			heirs = append(heirs, l.Instance)
		}
	}
	s.heirs.Store(&heirs)
}

// isStrict reports whether a tag is strict, as far as the rules were read.
func (s *strict) isStrict(tag string) bool { return isStrict(s.rules, tag) }

func isStrict(rules *tagrules.Watcher, tag string) bool {
	return rules.Lookup(tag).Order == tagrules.Strict
}

// rulesChanged acts on a rule: what a strict tag has in memory is dropped, of whatever term, so that
// what it answers from now on lies above all that anybody granted it before. Of templates, that goes for the tags
// that are strict by another one than before.
func (s *strict) rulesChanged(tag string) {
	if tag != "" {
		s.alloc.EndTerm(tag)
	} else {
		s.alloc.EndTerms(func(name string, _ uint64) bool { return s.rules.Redecided(name) })
	}
	s.ownerless.changedRules()
}

// beginTerm gives the term a number that no other one in this process has. Epochs are counted in a
// bucket, which may be made again.
func (s *strict) beginTerm(slot int, _ uint64) { s.terms[slot].Store(s.term.Add(1)) }

// endTerm has the buffers of the slot's tags dropped soon. Nothing is answered from them any more, but
// requests may be parked.
func (s *strict) endTerm(slot int, _ uint64) { s.ownerless.endedTerm(slot) }

// dropEnded drops what is of a term that has ended.
func (s *strict) dropEnded(ended [ownership.Slots]bool) {
	s.alloc.EndTerms(func(name string, term uint64) bool {
		slot := ownership.Slot(name)
		if term == 0 || !ended[slot] {
			return false
		}
		_, mine := s.owners.Term(slot)
		return !mine || term != s.terms[slot].Load()
	})
}

// take returns n IDs that may be answered now. Otherwise the request goes to dispatch.
func (s *strict) take(tag string, n int64) (ids store.Segment, ok bool) {
	slot := ownership.Slot(tag)
	epoch, mine := s.owners.Term(slot)
	if !mine {
		return ids, false
	}
	if ids, ok = s.alloc.TakeIn(tag, s.terms[slot].Load(), n); !ok {
		return ids, false
	}
	if !s.owners.Valid(slot, epoch) {
		s.burnt.Add(n)
		return ids, false
	}
	return ids, true
}

// mayUse is the look at the clock with n IDs of a term in hand. IDs that may not be used are burnt.
func (s *strict) mayUse(tag string, term uint64, n int64) bool {
	slot := ownership.Slot(tag)
	epoch, mine := s.owners.Term(slot)
	if mine && s.terms[slot].Load() == term && s.owners.Valid(slot, epoch) {
		return true
	}
	s.burnt.Add(n)
	return false
}

// ordered is a request for IDs of a strict tag that could not be answered at once.
type ordered struct {
	tag      string
	slot     int
	n        int64
	by       requester
	hops     int
	absences int           // how often it was sent to a process that was not there
	began    time.Duration // by elapsed
	deadline time.Duration // by elapsed
	rested   bool          // it was parked here
	hasRoom  bool          // it counts as one of those that are parked
	listed   bool          // it is parked, and not being looked at
}

// newOrdered makes a request that was just received, from a caller.
func (s *strict) newOrdered(tag string, n int64, by requester) *ordered {
	now := elapsed()
	return &ordered{
		tag: tag, slot: ownership.Slot(tag), n: n, by: by,
		began: now, deadline: now + s.cfg.Wait,
	}
}

// left is how long the request may still be parked.
func (o *ordered) left() time.Duration { return o.deadline - elapsed() }

// dispatch has a request answered here, passes it on, or parks it.
func (s *strict) dispatch(o *ordered) {
	switch epoch, mine := s.owners.Term(o.slot); {
	case o.by.gone():
	case o.left() <= 0:
		s.finish(o, nil, s.noOwner(o))
	case !s.isStrict(o.tag): // any more
		s.answer(o, 0, 0)
	case mine && s.owners.Valid(o.slot, epoch):
		s.answer(o, epoch, s.terms[o.slot].Load())
	case !mine && s.passOn(o):
	default:
		s.park(o)
	}
}

// answer answers a request from the buffers of the allocator, or has it parked there.
func (s *strict) answer(o *ordered, epoch, term uint64) {
	look := func(ids []store.Segment, err error) {
		switch {
		case errors.Is(err, allocator.ErrTerm):
			s.dispatch(o)
		case err == nil && !s.mayAnswer(o, epoch):
			s.burnt.Add(o.n)
			s.dispatch(o)
		default:
			s.finish(o, ids, err)
		}
	}
	ids, err := s.alloc.TakeOrParkWhile(o.by.wants(), o.tag, term, o.n, o.left(), look)
	if ids != nil || err != nil {
		look(ids, err)
	}
}

// mayAnswer is the look at the clock, with the IDs in hand. IDs of a tag that is not strict any more
// need none.
func (s *strict) mayAnswer(o *ordered, epoch uint64) bool {
	return epoch == 0 || s.owners.Valid(o.slot, epoch)
}

// finish replies to a request.
func (s *strict) finish(o *ordered, ids []store.Segment, err error) {
	s.late.resume(o.by, o.began).finish(ids, o.n, err)
}

// passOn sends a request to the owner of its slot, if that is known, and another process. One that was
// passed on more than once rests before each further time, for somebody does not know what changed. It
// reports whether the request needs nothing more.
func (s *strict) passOn(o *ordered) bool {
	owner, known := s.recipient(o)
	if !known || o.hops >= maxHops || o.hops > 1 && !o.rested {
		return false
	}
	msg := o.forwarded(s.cfg.Prefix, owner)
	switch ok, err := s.onTheWay.send(s.cfg.Requests, o, msg); {
	case !ok:
		return false
	case errors.Is(err, nats.ErrMaxPayload):
		s.finish(o, nil, errReplyTooLong)
	case err != nil:
		return false // the connection is lost
	default:
		s.forwarded.Add(1)
	}
	return true
}

// recipient returns the process to which a request is passed on: the owner of its slot, if that is known
// to be another one. If this process stops, any other one will do; whoever is not there is followed by
// the next.
func (s *strict) recipient(o *ordered) (instance string, known bool) {
	owner, known := s.owners.Owner(o.slot)
	known = known && owner != s.instance
	heirs := s.heirs.Load()
	if heirs == nil {
		return owner, known
	}
	candidates := *heirs
	if known {
		candidates = append([]string{owner}, candidates...)
	}
	if len(candidates) == 0 {
		return "", false
	}
	return candidates[o.absences%len(candidates)], true
}

// ownerAbsent parks a request that was sent to a process which is not there.
func (s *strict) ownerAbsent(msg *nats.Msg) {
	if o := s.onTheWay.take(msg); o != nil {
		s.forwarded.Add(-1)
		o.absences++
		s.park(o)
	}
}

// park parks a request until the owner of its slot is known, and makes sure that there will be one.
func (s *strict) park(o *ordered) {
	first := !o.rested
	if !s.ownerless.add(o) {
		s.finish(o, nil, allocator.ErrBusy)
		return
	}
	s.owners.Want(o.slot)
	if first {
		s.parked.Add(1)
		s.ownerless.changedSlot(o.slot) // it may have since it was looked at
	}
}

// noOwner says why nobody has answered a request.
func (s *strict) noOwner(o *ordered) error {
	e := &noOwnerError{hops: o.hops}
	owner, known := s.owners.Owner(o.slot)
	switch {
	case s.heirs.Load() != nil:
		e.why = "this process stops, and found no other one that answers"
	case !known:
		e.why = "none is known"
	case owner == s.instance:
		e.why = "this process, " + owner + ", is the owner and may not answer until its lease is renewed"
	default:
		e.why = "it is said to be " + owner + ", which does not answer"
	}
	return e
}

// fillStats adds how requests for strict tags are doing.
func (s *strict) fillStats(stats *Stats) {
	stats.Strict = StrictStats{
		Slots: s.owned(), Forwarded: s.forwarded.Load(), Received: s.received.Load(),
		Ownerless: s.ownerless.parked(), Burnt: s.burnt.Load() + s.alloc.Dropped(),
	}
}

// waiting is how many requests are parked here, or may yet be. One that is passed on meanwhile is found in
// the second place if not in the first.
func (s *strict) waiting() int { return s.ownerless.parked() + s.onTheWay.remembered() }

// owned is how many slots this process owns.
func (s *strict) owned() (n int) {
	for slot := range ownership.Slots {
		if _, mine := s.owners.Term(slot); mine {
			n++
		}
	}
	return n
}
