package messages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

var (
	// ErrClosed is wrapped by the error of [Prefetcher.Next] after [Prefetcher.Close].
	ErrClosed = errors.New("prefetcher is closed")

	// ErrPrefetch is wrapped by the errors of [Client.Prefetch] for a configuration that
	// is out of bounds.
	ErrPrefetch = errors.New("bad prefetch configuration")
)

// PrefetchConfig says how much a [Prefetcher] keeps in memory. Zero values are defaults.
type PrefetchConfig struct {
	// Runway is how long what is in memory should last at the present rate, when the next
	// IDs are asked for: 1ms to 1h, by default 1s.
	Runway time.Duration

	// Limit is the most IDs to have in memory or on their way, beside the batch in use:
	// 1 to 1,000,000,000, by default 1,000,000.
	Limit int64

	// MaxBatch is the most IDs to ask for in one request: 1 to 1,000,000,000, by default
	// 10,000. If workers allow less, requests become smaller by themselves.
	MaxBatch int64
}

const mostPrefetched = 1_000_000_000

// withDefaults fills in what is zero, and checks the bounds.
func (cfg PrefetchConfig) withDefaults() (PrefetchConfig, error) {
	if cfg.Runway == 0 {
		cfg.Runway = time.Second
	}
	if cfg.Limit == 0 {
		cfg.Limit = 1_000_000
	}
	if cfg.MaxBatch == 0 {
		cfg.MaxBatch = 10_000
	}
	if cfg.Runway < time.Millisecond || cfg.Runway > time.Hour {
		return cfg, fmt.Errorf("%w: Runway %v, allowed is 1ms to 1h", ErrPrefetch, cfg.Runway)
	}
	if cfg.Limit < 1 || cfg.Limit > mostPrefetched {
		return cfg, fmt.Errorf("%w: Limit %d, allowed is 1 to %d", ErrPrefetch, cfg.Limit, mostPrefetched)
	}
	if cfg.MaxBatch < 1 || cfg.MaxBatch > mostPrefetched {
		return cfg, fmt.Errorf("%w: MaxBatch %d, allowed is 1 to %d", ErrPrefetch, cfg.MaxBatch, mostPrefetched)
	}
	return cfg, nil
}

// mostRequests is how many requests of a prefetcher may be under way at a time: enough
// to hide the way there and back, and few beside what a worker parks.
const mostRequests = 16

// Prefetcher hands out IDs of one tag from memory, and asks for more before they run
// out. It is for processes that need more IDs than a request each can bring.
//
// What it costs: IDs come in the order of the replies to requests under way together,
// and are older than those that others get meanwhile, so that they rise in trend only,
// and more loosely than those of [Client.Next]. And what is in memory, or on its way, when the process
// ends or closes it is never used: up to Limit and the batch in use, and whatever comes
// too late for requests that were repeated.
//
// It is safe for concurrent use. Each ID is returned once.
//
// Invariants: while somebody waits, a request is under way. stock is what the queue
// holds, and asked what the requests under way will bring.
type Prefetcher struct {
	current atomic.Pointer[chunk] // nil before the first chunk and after Close
	_       [56]byte              // what is below changes while callers read the above

	client *Client
	tag    string
	cfg    PrefetchConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the requests under way

	mu       sync.Mutex
	queue    []*chunk
	stock    int64
	asked    int64
	requests int
	batch    int64 // the largest batch that workers allow, as far as is known
	pace     pace
	used     int64 // IDs of all chunks before the current one
	waiting  int64
	news     *news
	reason   error // what keeps requests from being answered; nil: nothing
	failing  bool  // the last request failed for good
	closed   bool
}

// chunk is a range of IDs in use. It fills a cache line of its own.
type chunk struct {
	first int64
	n     int64
	used  atomic.Int64 // n and more: it is used up
	_     [40]byte
}

// take returns the next ID of the chunk. IDs are counted by their offset, which
// cannot overflow at 2^63−1 as the IDs themselves could.
func (c *chunk) take() (id int64, ok bool) {
	i := c.used.Add(1) - 1
	return c.first + i, i < c.n
}

// news wakes everybody who waits: there are IDs, or an error for all of them.
type news struct {
	done chan struct{}
	err  error // set before done is closed
}

// Prefetch returns a prefetcher of IDs of the tag. It asks for nothing before the first
// call of Next, and must be closed. Errors: [ErrTag], [ErrPrefetch].
func (c *Client) Prefetch(tag string, cfg PrefetchConfig) (*Prefetcher, error) {
	if err := CheckTag(tag); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Prefetcher{tag: tag, cfg: cfg, batch: cfg.MaxBatch, pace: newPace(cfg, time.Now()), news: newNews()}
	p.client = &Client{nc: c.nc, prefix: c.prefix, noted: p.note}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

func newNews() *news { return &news{done: make(chan struct{})} }

// Next returns an ID. While there are IDs in memory it does not look at ctx; else it
// waits for some until ctx ends, and its error then matches both ctx.Err() and what kept
// the requests from being answered, as for [Client.Next]. The errors that Client.Next
// returns at once end every call that waits; the next call asks again. After Close:
// [ErrClosed].
func (p *Prefetcher) Next(ctx context.Context) (int64, error) {
	if c := p.current.Load(); c != nil {
		if id, ok := c.take(); ok {
			return id, nil
		}
	}
	return p.next(ctx)
}

// next is Next when the current chunk is used up.
func (p *Prefetcher) next(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return 0, fmt.Errorf("prefetch %s: %w", p.tag, ErrClosed)
		}
		if id, ok := p.take(); ok {
			p.refill()
			return id, nil
		}
		if err := p.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// wait sees to it that IDs are on their way, and returns when there is news. It
// releases mu meanwhile.
func (p *Prefetcher) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return p.ended(ctx)
	}
	p.waiting++
	defer func() { p.waiting-- }()
	p.refill()
	news := p.news
	p.mu.Unlock()
	select {
	case <-news.done:
		p.mu.Lock()
		return news.err
	case <-ctx.Done():
		p.mu.Lock()
		return p.ended(ctx)
	}
}

// ended is the error for a ctx that has ended.
func (p *Prefetcher) ended(ctx context.Context) error {
	reason := p.reason
	if reason == nil {
		reason = nats.ErrTimeout
	}
	return fmt.Errorf("prefetch %s: %w: %w", p.tag, ctx.Err(), reason)
}

// take returns the next ID in memory, if there is one, and makes its chunk the current
// one.
func (p *Prefetcher) take() (int64, bool) {
	last := p.current.Load()
	if last != nil {
		if id, ok := last.take(); ok {
			return id, true
		}
	}
	if len(p.queue) == 0 {
		return 0, false
	}
	if last != nil {
		p.used += last.n
	}
	c := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	p.stock -= c.n
	id, _ := c.take() // before anybody else can
	p.current.Store(c)
	return id, true
}

// handed is how many IDs have been handed out. It is exact only up to the chunk in
// use, whose IDs are counted as they are taken.
func (p *Prefetcher) handed() int64 {
	c := p.current.Load()
	if c == nil {
		return p.used
	}
	return p.used + min(c.used.Load(), c.n)
}

// refill starts requests if what there is, and what is on its way, falls below half
// of what there should be. Called with mu.
func (p *Prefetcher) refill() {
	have := p.stock + p.asked
	if have >= half(p.pace.target) && have >= min(p.waiting, p.cfg.Limit) {
		return
	}
	missing := max(p.pace.next(time.Now(), p.handed()), min(p.waiting, p.cfg.Limit)) - have
	most := mostRequests
	if p.failing {
		most = 1
	}
	for missing > 0 && p.requests < most {
		n := min(missing, p.batch)
		missing -= n
		p.request(n)
	}
}

// request asks for n IDs in the background. Called with mu.
func (p *Prefetcher) request(n int64) {
	p.asked += n
	p.requests++
	p.wg.Go(func() {
		ranges, err := p.client.NextN(p.ctx, p.tag, n)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked -= n
		p.requests--
		switch {
		case p.closed:
			return
		case err == nil:
			p.add(ranges)
		case errors.Is(err, ErrMalformed) && n > 1:
			p.batch = min(p.batch, n/2) // the workers allow less in one batch
		default:
			p.fail(err)
			return
		}
		p.refill()
	})
}

// add puts IDs into the queue. Called with mu.
func (p *Prefetcher) add(ranges []Range) {
	for _, r := range ranges {
		p.queue = append(p.queue, &chunk{first: r.First, n: r.Len()})
		p.stock += r.Len()
	}
	p.reason, p.failing = nil, false
	p.tell(nil)
}

// fail gives an error to all who wait. Nothing is asked again before somebody wants an
// ID. Called with mu.
func (p *Prefetcher) fail(err error) {
	p.failing = true
	if errors.Is(err, ErrMalformed) { // of a single ID: batches were not what was wrong
		p.batch = p.cfg.MaxBatch
	}
	p.tell(err)
}

// tell wakes all who wait. Called with mu.
func (p *Prefetcher) tell(err error) {
	if p.waiting == 0 {
		return
	}
	p.news.err = err
	close(p.news.done)
	p.news = newNews()
}

// note keeps the reason why a request is asked again.
func (p *Prefetcher) note(transient error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = transient
}

// Close ends all calls of Next with [ErrClosed], those that come later too, and returns
// when nothing of the prefetcher runs any more. What it had in memory is never used.
// Closing it twice does nothing.
func (p *Prefetcher) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.current.Store(nil)
		p.queue = nil
		p.tell(nil)
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}
