package ownership

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/nonce"
)

// atOnce is how many writes are under way at the same time.
const atOnce = 16

// acts is what this process has under way, or has tried in vain.
type acts struct {
	slots  [Slots]try
	places map[int]try
	forced [Slots]bool // to be handed over whatever the plan says

	given   handOver          // the last one
	shunned map[leaseID]int64 // who gets nothing, and until when
}

// handOver is a slot that was handed over, and how long it is waited for to be taken.
type handOver struct {
	slot  int
	to    leaseID
	epoch uint64
	until int64
}

// try is a write that is under way, or was not known to be done.
type try struct {
	busy  bool
	retry int64 // not before
}

// act does this process's part until ctx ends: it ends leases that have run out, takes slots, and
// hands over. What is to be done depends on the view alone.
func (o *Ownership) act(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	room := make(chan struct{}, atOnce)
	for ctx.Err() == nil {
		todo, wait := o.decide()
		for _, do := range todo {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				do(ctx)
				<-room
				o.nudge()
			})
		}
		o.untilNudged(ctx, wait)
	}
}

// end ends a lease that was not renewed for its whole T.
func (o *Ownership) end(ctx context.Context, place int, s sighting) {
	v := s.leaseValue
	v.Ended, v.Write = lost, nonce.New()
	err := o.write(ctx, leaseKey(place), encode(v), s.revision)
	if err == nil {
		o.log.Warn("a process has not renewed its lease: the strict tags that it owned are shared out",
			zap.String("process", s.Instance), zap.Int("place", place), zap.Uint64("life", s.Life))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts.places[place] = try{retry: o.now() + int64(o.part(retriesPerTerm))}
	if now := o.view.leases[place]; err != nil && now.revision == s.revision {
		now.seen = o.now() // it may have been renewed, which was not heard of
		o.view.leases[place] = now
	}
}

// take makes this process the owner of a slot, under the next epoch. That it does begins only when
// the write is known to be done. Finding its own name in the bucket later is not enough: whoever does not get the
// answer takes the slot again.
func (o *Ownership) take(ctx context.Context, l leaseID, slot int, s slotSighting) {
	v := slotValue{Lease: l, Epoch: s.Epoch + 1, Write: nonce.New()}
	err := o.write(ctx, slotKey(slot), encode(v), s.revision)
	if err == nil && o.terms.begin(l, slot, v.Epoch) {
		o.endIfPassed(slot)
		o.changed(slot)
	}
	o.tried(slot, err)
}

// give hands a slot over, or lets it go, to none. This process stops answering for it before that is written.
func (o *Ownership) give(ctx context.Context, to leaseID, slot int, s slotSighting) {
	o.terms.end(slot)
	o.changed(slot)
	err := o.write(ctx, slotKey(slot), encode(slotValue{To: to, Epoch: s.Epoch, Write: nonce.New()}), s.revision)
	o.tried(slot, err)
}

// write writes a key, and takes in what was written.
func (o *Ownership) write(ctx context.Context, key string, value []byte, revision uint64) error {
	return o.call(ctx, func(ctx context.Context) error {
		written, err := o.bucket.write(ctx, key, value, revision)
		if err == nil {
			o.learn(record{key, value, written})
		}
		return err
	})
}

// tried is called when a write of a slot is over.
func (o *Ownership) tried(slot int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts.slots[slot] = try{}
	if err != nil {
		o.acts.slots[slot].retry = o.now() + int64(o.part(retriesPerTerm))
	}
}

// nudge has act look again.
func (o *Ownership) nudge() {
	select {
	case o.nudged <- struct{}{}:
	default:
	}
}

func (o *Ownership) untilNudged(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.nudged:
	case <-ctx.Done():
	}
}
