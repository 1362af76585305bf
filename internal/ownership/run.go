package ownership

import (
	"context"
	"sync"
	"time"

	"github.com/idworker/idworker/internal/pause"
)

// event happens once.
type event struct {
	once sync.Once
	done chan struct{}
}

func newEvent() *event { return &event{done: make(chan struct{})} }

func (e *event) happen() { e.once.Do(func() { close(e.done) }) }

func (e *event) wait(ctx context.Context) error {
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// running are the goroutines of an Ownership, and what they say to each other.
type running struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	last   *life  // that keep ended with; after all have ended
	ready  *event // this process has a lease
	nudged chan struct{}
	rules  chan struct{} // are to be written
}

// Start takes part, and returns once this process has a lease, or with an error when ctx ends
// before. From then on it goes on by itself until Stop, whatever becomes of JetStream or the lease.
// After an error, Stop has to be called too.
func (o *Ownership) Start(ctx context.Context) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	o.cancel = cancel
	o.all.Go(func() { o.follow(own) })
	o.all.Go(func() { o.last = o.keep(own) })
	o.all.Go(func() { o.act(own) })
	return o.ready.wait(ctx)
}

// Stop stops answering, gives up the lease, and so all slots, with one write, and returns when all
// goroutines have ended. If ctx ends before the write is known to be done, others take the slots
// once the lease has run out.
func (o *Ownership) Stop(ctx context.Context) error {
	if o.cancel == nil {
		return nil
	}
	o.cancel()
	o.all.Wait()
	o.leave()
	l := o.last
	if o.last = nil; l == nil {
		return nil
	}
	return o.giveUp(ctx, l)
}

// part is a part of T.
func (o *Ownership) part(parts int) time.Duration { return o.cfg.LeaseTime / time.Duration(parts) }

// callTime is how long a call may take. A server that many processes ask at once, as when all of them
// start, may need longer; asking it again sooner would only add to that. So where nothing is lost by
// waiting, the time is doubled with each failure.
func (o *Ownership) callTime(failures int) time.Duration {
	return o.part(callsPerTerm) << min(failures, maxPatience)
}

const maxPatience = 3

// call gives a call to JetStream its time.
func (o *Ownership) call(ctx context.Context, do func(context.Context) error) error {
	return within(ctx, o.callTime(0), do)
}

func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// pauseBeforeRetry is after a call that failed.
func (o *Ownership) pauseBeforeRetry(ctx context.Context) { pause.For(ctx, o.part(retriesPerTerm)) }
