package ownership

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

// How often a lease is renewed, as parts of T, or of the time that a process that rests may be silent.
const (
	renewalsPerTerm = 3
	retriesPerTerm  = 16 // after a renewal that failed
	callsPerTerm    = 4  // one call takes no longer
)

// life is the period in which this process has one lease.
type life struct {
	id    leaseID
	cell  cell
	rests bool            // as the last renewal says that is known to be done
	ctx   context.Context // ends when the lease is known to be over
	end   context.CancelCauseFunc
}

// keep has a lease, and another one when that is over, until ctx ends. It returns the lease it has then.
func (o *Ownership) keep(ctx context.Context) *life {
	said := false
	for ctx.Err() == nil {
		l, err := o.claim(ctx)
		if err != nil {
			if !said && ctx.Err() == nil {
				o.log.Warn("no lease among the owners of strict tags, trying again", zap.Error(err))
			}
			said = true
			o.pauseBeforeRetry(ctx)
			continue
		}
		said = false
		o.enter(l)
		err = o.renewUntilOver(ctx, l)
		if ctx.Err() != nil {
			return l
		}
		o.log.Warn("the lease among the owners of strict tags is over, seeking another one", zap.Error(err))
		o.leave()
		o.relist()
	}
	return nil
}

// value is what this process writes into its lease. Whether it may rest is looked at after how far it
// has acted: it does not say that it has acted upon a rule that makes a tag strict, and rest.
func (o *Ownership) value(l leaseID) leaseValue {
	v := leaseValue{
		Life:         l.Life,
		Instance:     o.cfg.Instance,
		Host:         o.cfg.Host,
		Installation: o.cfg.Installation,
		Rules:        o.cfg.Rules(),
		Term:         o.cfg.LeaseTime.Milliseconds(),
	}
	if o.mayRest(l) {
		v.Rest = restTime.Milliseconds()
	}
	return v
}

// restTime is how long a process that rests may be silent.
const restTime = maxTerm

// mayRest reports whether this process may rest: there is no strict tag, and it has no slot, nor may be
// about to have one.
func (o *Ownership) mayRest(l leaseID) bool {
	if o.cfg.Strict() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for slot := range Slots {
		if o.acts.slots[slot].busy {
			return false
		}
	}
	return !o.view.names(l)
}

// claim makes a lease at a place that nobody has.
func (o *Ownership) claim(ctx context.Context) (*life, error) {
	o.mu.Lock()
	listed := o.listed
	o.mu.Unlock()
	if err := listed.wait(ctx); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		l := o.propose(tries)
		err := o.settle(ctx, l)
		if err == nil {
			return l, nil
		}
		l.end(err)
		if ctx.Err() != nil || !errors.Is(err, errOver) || tries == claimTries {
			return nil, err
		}
	}
}

// claimTries is at how many places in a row a claim may meet somebody who was faster.
const claimTries = 100

// settle writes a new lease until it is known what became of that: a claim that was given up could be
// written later.
func (o *Ownership) settle(ctx context.Context, l *life) error {
	for {
		v := o.value(l.id)
		err := l.cell.write(ctx, v)
		if l.cell.owned {
			l.rests = err == nil && v.rests()
			l.cell.limit = o.callTime(0)
			return nil
		}
		if errors.Is(err, errOver) || ctx.Err() != nil {
			return err
		}
		l.cell.limit = min(2*l.cell.limit, o.callTime(maxPatience))
		o.pauseBeforeRetry(ctx)
	}
}

// spare is how many leases that others have ended are kept for those to see who want to know what
// became of a process. The places of the others are used again.
const spare = 16

// newPlaces is among how many new places a lease is made at the first try.
const newPlaces = 64

// propose returns a lease that might be made: at a place whose lease has ended, or else at a new one. The
// choice is wide, and wider with each try, so that many who start at once find a place each.
func (o *Ownership) propose(tries int) *life {
	o.mu.Lock()
	defer o.mu.Unlock()
	places := o.view.vacant(tries > 0, newPlaces<<min(3*tries, 6))
	place := places[rand.N(len(places))]
	if former := o.view.leases[o.former.Place]; tries == 0 && former.Life == o.former.Life && former.mayLive() {
		place = o.former.Place // so everybody sees that the process lives
	}
	found, known := o.view.leases[place]
	if !known { // not even the marker of one that was deleted
		found.Life = o.fed.Load()
	}
	l := &life{id: leaseID{place, found.Life + 1}}
	l.cell = cell{
		bucket: o.bucket, now: o.now, learn: o.learn, limit: o.callTime(0),
		key: leaseKey(place), revision: found.revision, sent: make(map[string]int64),
	}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	return l
}

// enter begins a life: the lease is known to be made.
func (o *Ownership) enter(l *life) {
	o.mu.Lock()
	o.life, o.former = l, l.id
	o.rests, o.activeSince = l.rests, o.now()
	o.mu.Unlock()
	o.terms.open(l.id, o.until(l))
	o.log.Info("this process takes part in sharing out the strict tags", zap.Int("place", l.id.Place), zap.Uint64("life", l.id.Life))
	o.ready.happen()
	o.nudge()
}

// until is when nothing is valid any more without another renewal.
func (o *Ownership) until(l *life) int64 { return l.cell.done + int64(o.validFor) }

// leave ends a life. What was taken under it and becomes known later does not count.
func (o *Ownership) leave() {
	o.mu.Lock()
	if o.life != nil {
		o.life.end(errOver)
	}
	o.life = nil
	o.mu.Unlock()
	o.changed(o.terms.close()...)
}

// renewUntilOver renews a lease until ctx ends or it is over, and returns why.
func (o *Ownership) renewUntilOver(ctx context.Context, l *life) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	var err error
	for !errors.Is(err, errOver) {
		wait := o.part(retriesPerTerm)
		if err == nil {
			wait = max(o.untilRenewal(l)-time.Duration(o.now()-l.cell.done), wait)
		}
		o.untilTold(ctx, wait)
		if ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		o.checkFollowing(l)
		err = o.renew(ctx, l)
	}
	return err
}

// renew is one renewal.
func (o *Ownership) renew(ctx context.Context, l *life) error {
	before, silent := l.cell.revision, o.now()-l.cell.done >= int64(validity(o.period(l)))
	v := o.value(l.id)
	err := l.cell.write(ctx, v)
	if l.cell.revision == before {
		return err
	}
	o.setRests(l, err == nil && v.rests())
	wasPast := o.terms.extend(o.until(l))
	if silent {
		o.watchAnew()
	}
	if wasPast {
		o.changed(o.terms.owned()...)
	}
	o.nudge()
	return err
}

// setRests says whether this process rests, as its lease does now.
func (o *Ownership) setRests(l *life, rests bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.rests && !rests {
		o.activeSince = o.now()
	}
	l.rests, o.rests = rests, rests
}

// period is how long this process may be silent: T, unless it rests.
func (o *Ownership) period(l *life) time.Duration {
	if l.rests {
		return max(restTime, o.cfg.LeaseTime)
	}
	return o.cfg.LeaseTime
}

// watchAnew has the time count from now in which others have to renew their leases. This process
// could not renew its own either, so the time before says nothing.
func (o *Ownership) watchAnew() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for place, s := range o.view.leases {
		s.seen = o.now()
		o.view.leases[place] = s
	}
}

// untilRenewal is up to a tenth shorter than it has to be, so that those who began together do not
// write at the same moment for ever. At rest it is up to a half: what all of them did at once, such as to
// start or to act upon a rule, is spread at the first time.
func (o *Ownership) untilRenewal(l *life) time.Duration {
	longest := o.period(l) / renewalsPerTerm
	if l.rests {
		return longest - rand.N(longest/2)
	}
	return longest - rand.N(longest/10)
}

// untilTold waits until it is time, or the rules have changed, or this process is to rest no more.
func (o *Ownership) untilTold(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.rules:
	case <-ctx.Done():
	}
}

// giveUp ends a lease at a stop: all slots are free with one write.
func (o *Ownership) giveUp(ctx context.Context, l *life) error {
	v := o.value(l.id)
	v.Ended = stopped
	for {
		err := l.cell.write(ctx, v)
		if err == nil || errors.Is(err, errOver) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the lease among the owners of strict tags runs out by itself: %w", err)
		}
		o.pauseBeforeRetry(ctx)
	}
}
