package messages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrClosed is wrapped by the error of [Prefetcher.Next] after
// [Prefetcher.Close].
var ErrClosed = errors.New("prefetcher is closed")

// Prefetcher returns IDs of one tag from a buffer, and requests more before
// they run out. It is for processes that need IDs faster than single requests
// can bring them.
//
// A strict tag has no prefetcher: its IDs would be out of order by the time
// they are used. [Prefetcher.Next] fails with [ErrStrict].
//
// It has two costs. First, several requests are in flight at a time, and IDs
// come in the order of their replies; they are also older than the IDs that
// others get at the same time. So they only tend to rise, and more loosely than
// those of [Client.Next]. Second, IDs that are buffered or in flight when the
// process ends or calls Close are never used: up to Limit and the batch in use,
// and the late replies to repeated requests.
//
// It is safe for concurrent use. Each ID is returned once.
//
// Invariant: while a caller waits, a request is in flight.
type Prefetcher struct {
	current atomic.Pointer[chunk] // nil before the first chunk and after Close
	// Keeps current off the cache line of the fields below, which change.
	_ [56]byte

	client *Client
	tag    string
	cfg    PrefetchConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the requests in flight

	mu       sync.Mutex
	stock    stock // after the current chunk
	used     int64 // IDs of all chunks before current
	pace     pace
	requests requests
	waiters  waiters
	closed   bool
}

// waiters are the calls of Next that wait for IDs.
type waiters struct {
	n      int64
	wakeUp *wakeUp
	reason error // why requests are unanswered; nil if they are answered
}

// wakeUp wakes all waiters: there are IDs, or an error for all of them.
type wakeUp struct {
	done chan struct{}
	err  error // set before done is closed
}

func newWakeUp() *wakeUp { return &wakeUp{done: make(chan struct{})} }

// wake ends all waits, with an error if it is not nil.
func (w *waiters) wake(err error) {
	if w.n == 0 {
		return
	}
	w.wakeUp.err = err
	close(w.wakeUp.done)
	w.wakeUp = newWakeUp()
}

// Prefetch returns a prefetcher of IDs of the tag, which must be closed. It
// sends no request before the first call of Next. Errors: [ErrTag],
// [ErrPrefetch], [ErrPrefix].
func (c *Client) Prefetch(tag string, cfg PrefetchConfig) (*Prefetcher, error) {
	if err := cmp.Or(c.bad, CheckTag(tag)); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Prefetcher{
		tag: tag, cfg: cfg, pace: newPace(cfg, time.Now()),
		requests: requests{maxBatch: cfg.MaxBatch}, waiters: waiters{wakeUp: newWakeUp()},
	}
	p.client = &Client{nc: c.nc, prefix: c.prefix, header: nats.Header{PrefetchHeader: {"1"}}, onTransient: p.recordTransient}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Next returns an ID. While IDs are buffered it ignores ctx. Otherwise it waits
// for IDs until ctx ends; its error then matches both ctx.Err() and the reason
// why the requests were not answered, as for [Client.Next]. An error that
// Client.Next returns at once ends every waiting call; the next call sends
// another request. After Close the error is [ErrClosed].
func (p *Prefetcher) Next(ctx context.Context) (int64, error) {
	if c := p.current.Load(); c != nil {
		if id, ok := c.takeID(); ok {
			return id, nil
		}
	}
	return p.nextOrWait(ctx)
}

// nextOrWait is Next when the current chunk is used up.
func (p *Prefetcher) nextOrWait(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return 0, fmt.Errorf("prefetch %s: %w", p.tag, ErrClosed)
		}
		if id, ok := p.takeID(); ok {
			p.refill()
			return id, nil
		}
		if err := p.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// wait makes sure that a request is in flight, and returns when there are IDs,
// or with an error. It releases mu while it waits.
func (p *Prefetcher) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return p.timeoutError(ctx)
	}
	p.waiters.n++
	defer func() { p.waiters.n-- }()
	p.refill()
	wakeUp := p.waiters.wakeUp
	p.mu.Unlock()
	select {
	case <-wakeUp.done:
		p.mu.Lock()
		return wakeUp.err
	case <-ctx.Done():
		p.mu.Lock()
		return p.timeoutError(ctx)
	}
}

// timeoutError returns the error of Next when ctx has ended.
func (p *Prefetcher) timeoutError(ctx context.Context) error {
	reason := p.waiters.reason
	if reason == nil {
		reason = nats.ErrTimeout
	}
	return fmt.Errorf("prefetch %s: %w: %w", p.tag, ctx.Err(), reason)
}

// takeID returns the next buffered ID, if any, and makes its chunk the current
// chunk. The caller holds mu.
func (p *Prefetcher) takeID() (int64, bool) {
	last := p.current.Load()
	if last != nil {
		if id, ok := last.takeID(); ok {
			return id, true
		}
	}
	c := p.stock.takeChunk()
	if c == nil {
		return 0, false
	}
	if last != nil {
		p.used += last.n
	}
	id, _ := c.takeID() // before any other caller can
	p.current.Store(c)
	return id, true
}

// recordTransient keeps the reason why a request is repeated.
func (p *Prefetcher) recordTransient(transient error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters.reason = transient
}

// Close ends all present and future calls of Next with [ErrClosed], and returns
// when all goroutines of the prefetcher have ended. Buffered IDs are never
// used. Closing it again does nothing.
func (p *Prefetcher) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.current.Store(nil)
		p.stock = stock{}
		p.waiters.wake(nil)
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
