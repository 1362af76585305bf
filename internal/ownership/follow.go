package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/internal/nonce"
)

// follow keeps the view up to date until ctx ends.
func (o *Ownership) follow(ctx context.Context) {
	said, failures := false, 0
	for ctx.Err() == nil {
		began, err := o.followOnce(ctx, o.callTime(failures))
		if failures++; began {
			said, failures = false, 0
		}
		if ctx.Err() == nil && !said && !isUsual(err) {
			o.log.Warn("the owners of strict tags cannot be read, trying again", zap.Error(err))
			said = true
		}
		if !errors.Is(err, errNew) && !errors.Is(err, context.Canceled) {
			o.pauseBeforeRetry(ctx)
		}
	}
}

// isUsual reports whether a feed may end like that.
func isUsual(err error) bool {
	for _, usual := range []error{kvwatch.ErrEnded, context.Canceled, errNew, errConflict} {
		if errors.Is(err, usual) {
			return true
		}
	}
	return false
}

// refollow has the bucket be read anew.
func (o *Ownership) refollow() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endFeed()
}

// relist is refollow, and has the next lease wait for it: the bucket may not be the one that was read.
func (o *Ownership) relist() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listed = newEvent()
	o.endFeed()
}

func (o *Ownership) endFeed() {
	if o.stopFeed != nil {
		o.stopFeed()
	}
}

// followOnce reads all entries and then every change, until that breaks off.
func (o *Ownership) followOnce(ctx context.Context, limit time.Duration) (began bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.mu.Lock()
	o.stopFeed = cancel
	o.mu.Unlock()
	var f feed
	if err := within(ctx, limit, func(ctx context.Context) (err error) { f, err = o.bucket.follow(ctx); return err }); err != nil {
		return false, err
	}
	defer f.Close()
	if err := o.list(ctx, f, limit); err != nil {
		return false, err
	}
	for {
		entry, err := f.Next(ctx)
		if err != nil {
			return true, err
		}
		o.fed.Store(entry.Revision)
		o.learn(record{entry.Key, entry.Value, entry.Revision})
	}
}

// list reads all entries that there are.
func (o *Ownership) list(ctx context.Context, f feed, limit time.Duration) error {
	read := newView()
	last := uint64(0)
	for !f.CaughtUp() {
		entry, err := f.Next(ctx)
		if err != nil {
			return err
		}
		last = entry.Revision
		if entry.Key == identityKey {
			read.identity = string(entry.Value)
		}
		if _, _, err := read.apply(record{entry.Key, entry.Value, entry.Revision}, o.now()); err != nil {
			o.log.Error("the owners of strict tags: an entry cannot be read, and counts as deleted", zap.Error(err))
		}
	}
	if read.identity == "" {
		return o.identify(ctx)
	}
	o.fed.Store(last)
	return o.admit(ctx, read, limit)
}

// errNew says that the bucket has to be read again, for it had no identity.
var errNew = errors.New("the bucket has got its identity just now")

// identify gives the bucket its identity, which comes before all other entries.
func (o *Ownership) identify(ctx context.Context) error {
	err := o.call(ctx, func(ctx context.Context) error {
		_, err := o.bucket.write(ctx, identityKey, []byte(nonce.New()), 0)
		return err
	})
	if err == nil {
		return errNew
	}
	return err // if it was written meanwhile, a replica that lags may not have it for a while
}

// admit makes what was read the view. If it is that of the same bucket, what was known stays known.
func (o *Ownership) admit(ctx context.Context, read *view, limit time.Duration) error {
	var agreed string
	err := within(ctx, limit, func(ctx context.Context) (err error) { agreed, err = o.bucket.agree(ctx, read.identity); return err })
	if err != nil {
		return err
	}
	o.mu.Lock()
	if o.view.identity == read.identity {
		o.view.merge(read)
	} else {
		o.replaceView(read, agreed == read.identity)
	}
	listed := o.listed
	o.mu.Unlock()
	o.update(everybody, 0)
	listed.happen()
	return nil
}

// replaceView takes in the view of a bucket that was not read before. Nothing that was known of
// another one counts there, least of all this process's lease.
func (o *Ownership) replaceView(read *view, agreed bool) {
	again := o.view.identity != ""
	o.view, o.since, o.agreed = read, o.now(), agreed
	if !agreed {
		o.log.Error("the bucket of the owners of strict tags was made again: slots that nobody has had there are taken only after a lease time")
	}
	if again && o.life != nil {
		o.life.end(fmt.Errorf("%w: the bucket was made again", errOver))
	}
}

// learn takes in what is known to be, or to have been, in an entry.
func (o *Ownership) learn(r record) {
	o.mu.Lock()
	what, slot, err := o.view.apply(r, o.now())
	o.mu.Unlock()
	if err != nil {
		o.log.Error("the owners of strict tags: an entry cannot be read, and counts as deleted", zap.Error(err))
	}
	o.update(what, slot)
}

// update draws the conclusions from a change of the view.
func (o *Ownership) update(what change, slot int) {
	if what == nothing {
		return
	}
	first, end := slot, slot+1
	if what == everybody {
		first, end = 0, Slots
	}
	o.mu.Lock()
	if o.life != nil && o.view.over(o.life.id) {
		o.life.end(errOver)
	}
	changed, rests := o.publishOwners(first, end), o.rests
	o.mu.Unlock()
	for slot := first; slot < end; slot++ {
		if o.terms.epochs[slot].Load() != 0 { // whoever begins a term looks afterwards
			o.endIfPassed(slot)
		}
	}
	o.changed(changed...)
	if !rests { // who rests looks after each renewal
		o.nudge()
	}
}

// publishOwners makes the owners of some slots known to those who read without a lock, and returns
// which of them have changed.
func (o *Ownership) publishOwners(first, end int) (changed []int) {
	for slot := first; slot < end; slot++ {
		var now *string
		if l := o.view.slots[slot].Lease; o.view.alive(l) {
			instance := o.view.leases[l.Place].Instance
			now = &instance
		}
		if before := o.owners[slot].Swap(now); (now == nil) != (before == nil) || now != nil && *now != *before {
			changed = append(changed, slot)
		}
	}
	return changed
}

// endIfPassed ends this process's term of a slot if the slot is not as this process has taken it.
func (o *Ownership) endIfPassed(slot int) {
	o.mu.Lock()
	s := &o.view.slots[slot]
	l, epoch := s.Lease, s.Epoch
	o.mu.Unlock()
	if o.terms.endUnless(l, slot, epoch) {
		o.changed(slot)
	}
}

// changed tells whoever uses this that slots have changed.
func (o *Ownership) changed(slots ...int) {
	for _, slot := range slots {
		o.cfg.Changed(slot)
	}
}

// checkFollowing has the bucket be read anew if this process's last renewal has not arrived by
// the time of the next one: the feed is silent, or its replica is cut off. A renewal that is early,
// because there are rules to be written, says nothing: the one before may be on its way. And a process that
// reads anew learns for a moment of nothing, least of all that slots were left to it.
func (o *Ownership) checkFollowing(l *life) {
	if o.fed.Load() < l.cell.revision && o.now()-l.cell.done >= int64(o.part(retriesPerTerm)) {
		o.refollow()
	}
}
