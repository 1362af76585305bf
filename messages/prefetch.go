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

// Prefetcher returns IDs of one tag, or snowflake IDs, from a buffer, and
// requests more before they run out. It is for processes that need IDs faster
// than single requests can bring them.
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
// It discards all buffered IDs if some are older than a minute, or newer than
// the wall clock: a copy of the process would use them, too. It reads the clock
// once a second, and when it begins a range. This does not cover all copies.
// One that continues after more than a minute may repeat IDs for a second. One
// that continues sooner may repeat the whole buffer, or both may receive the
// reply to a request in flight. So do not clone a running process, as CRIU does,
// or its virtual machine.
//
// It is safe for concurrent use. Each ID is returned once.
//
// Invariant: while a caller waits, a request is in flight.
type Prefetcher struct {
	current atomic.Pointer[chunk] // nil before the first chunk and after Close
	// Keeps current off the cache line of the fields below, which change.
	_ [56]byte

	client *Client
	tag    string // "" for snowflake IDs
	what   string // the tag, or what else is fetched, for errors
	fetch  func(n int64) ([]Range, error)
	cfg    PrefetchConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the requests in flight and ageTimer

	mu       sync.Mutex
	wall     func() time.Time // the wall clock
	ageTimer *time.Timer      // runs while IDs are buffered; nil if it does not
	stock    stock            // after the current chunk
	used     int64            // IDs taken from the chunks before current
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
	p, err := c.newPrefetcher(tag, cfg)
	if err != nil {
		return nil, err
	}
	p.tag = tag
	p.fetch = func(n int64) ([]Range, error) { return p.client.NextN(p.ctx, tag, n) }
	return p, nil
}

// PrefetchSnowflake returns a prefetcher of snowflake IDs, which must be closed.
// It sends no request before the first call of Next. Errors: [ErrPrefetch],
// [ErrPrefix].
//
// Snowflake IDs sort by the time at which a worker makes them, up to a minute
// before Next returns them: typically 2s with a Runway of 1s. If a worker
// refuses a batch, as it does when its IDs are too far ahead of the clock,
// batches begin again at one ID, and double.
func (c *Client) PrefetchSnowflake(cfg PrefetchConfig) (*Prefetcher, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	p, err := c.newPrefetcher("snowflake IDs", cfg)
	if err != nil {
		return nil, err
	}
	p.fetch = func(n int64) ([]Range, error) {
		p.client.watch()
		request := newCall(p.client, p.client.prefix.Snowflake(), n, "")
		request.hasty = n > 1
		ranges, err := request.run(p.ctx)
		p.client.note("", err)
		return ranges, err
	}
	return p, nil
}

// newPrefetcher returns a prefetcher without its fetch.
func (c *Client) newPrefetcher(what string, cfg PrefetchConfig) (*Prefetcher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Prefetcher{
		what: what, cfg: cfg, pace: newPace(cfg, time.Now()), wall: wallClock,
		requests: requests{maxBatch: cfg.MaxBatch, batch: cfg.MaxBatch}, waiters: waiters{wakeUp: newWakeUp()},
	}
	p.client = &Client{nc: c.nc, prefix: c.prefix, header: nats.Header{PrefetchHeader: {"1"}}, onTransient: p.recordTransient, Log: c.Log, outages: c.outages}
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
	id, err := p.nextOrWait(ctx)
	if err != nil { // the requests note their success
		p.client.note(p.tag, err)
	}
	return id, err
}

// nextOrWait is Next when the current chunk is used up.
func (p *Prefetcher) nextOrWait(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return 0, fmt.Errorf("prefetch %s: %w", p.what, ErrClosed)
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
	return fmt.Errorf("prefetch %s: %w: %w", p.what, ctx.Err(), reason)
}

// takeID returns the next buffered ID, if any, and makes its chunk the current
// chunk. If that chunk is too old, it discards the buffer. The caller holds mu.
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
	if !p.isFresh(c) {
		p.discard()
		return 0, false
	}
	if last != nil {
		p.used += last.n
	}
	id, _ := c.takeID() // before any other caller can
	p.current.Store(c)
	return id, true
}

// maxAge bounds the age of buffered IDs. They are checked each ageInterval, not
// in each call of Next: reading the clock costs many times the rest.
const (
	maxAge      = time.Minute
	ageInterval = time.Second
)

// wallClock returns the wall time alone. Monotonic time stands still while the
// machine is suspended, and differs between machines.
func wallClock() time.Time { return time.Now().Round(0) }

// isFresh reports whether the wall clock permits the use of a chunk. The caller
// holds mu.
func (p *Prefetcher) isFresh(c *chunk) bool {
	age := p.wall().Sub(c.arrived)
	return age >= 0 && age <= maxAge
}

// startAgeTimer makes sure that the age of the buffer is checked. The caller
// holds mu.
func (p *Prefetcher) startAgeTimer() {
	if p.ageTimer == nil {
		p.wg.Add(1)
		p.ageTimer = time.AfterFunc(ageInterval, p.checkAge)
	}
}

// checkAge discards the buffer if it is too old, and otherwise starts the timer
// again while IDs are buffered.
func (p *Prefetcher) checkAge() {
	defer p.wg.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ageTimer = nil
	switch c := p.oldestChunk(); {
	case c == nil:
	case p.isFresh(c):
		p.startAgeTimer()
	default:
		p.discard()
	}
}

// oldestChunk returns the chunk of the next ID, or nil if none is buffered. The
// caller holds mu.
func (p *Prefetcher) oldestChunk() *chunk {
	if c := p.current.Load(); c != nil && c.used.Load() < c.n {
		return c
	}
	if len(p.stock.chunks) > 0 {
		return p.stock.chunks[0]
	}
	return nil
}

// discard empties the buffer. Callers that still hold the current chunk get no
// more IDs from it. The buffer was too large for its use, so the target starts
// again at 1. Requests in flight will bring fresh IDs. The caller holds mu.
func (p *Prefetcher) discard() {
	if c := p.current.Swap(nil); c != nil {
		p.used += c.useUp()
	}
	p.stock = stock{}
	p.pace.restart(time.Now(), p.used)
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
		p.discard()
		if p.ageTimer != nil && p.ageTimer.Stop() {
			p.wg.Done()
		}
		p.waiters.wake(nil)
	}
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}

// ErrPrefetch is wrapped by the errors of [Client.Prefetch] for a configuration
// that is out of bounds.
var ErrPrefetch = errors.New("bad prefetch configuration")

// PrefetchConfig bounds the buffer of a [Prefetcher]. Zero means the default.
type PrefetchConfig struct {
	// Runway is the time that the buffered IDs should still last, at the
	// present rate, when more are requested: 1ms to 1h, by default 1s. More than
	// 10s has the effect of 10s, because old IDs are discarded.
	Runway time.Duration

	// Limit is the maximum number of IDs buffered or in flight, apart from the
	// batch in use: 1 to 1,000,000,000, by default 1,000,000.
	Limit int64

	// MaxBatch is the maximum number of IDs in one request: 1 to 1,000,000,000,
	// by default 10,000. If the workers allow fewer, requests shrink
	// automatically.
	MaxBatch int64
}

// longestRunway is the longest Runway that has an effect. At a steady rate an ID
// waits for four Runways at most: two in the stock, two in the current chunk.
// The rest of maxAge is for rates that fall.
const longestRunway = 10 * time.Second

// maxPrefetched is the upper bound of Limit and MaxBatch.
const maxPrefetched = 1_000_000_000

// withDefaults replaces zero values with the defaults, and checks the bounds.
// The error wraps [ErrPrefetch].
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
	if cfg.Limit < 1 || cfg.Limit > maxPrefetched {
		return cfg, fmt.Errorf("%w: Limit %d, allowed is 1 to %d", ErrPrefetch, cfg.Limit, maxPrefetched)
	}
	if cfg.MaxBatch < 1 || cfg.MaxBatch > maxPrefetched {
		return cfg, fmt.Errorf("%w: MaxBatch %d, allowed is 1 to %d", ErrPrefetch, cfg.MaxBatch, maxPrefetched)
	}
	cfg.Runway = min(cfg.Runway, longestRunway)
	return cfg, nil
}

// maxRequests bounds the requests of a prefetcher in flight: enough to hide the
// round trip, and few compared with the number that a worker parks.
const maxRequests = 16

// requests is a prefetcher's state of its requests.
type requests struct {
	n   int   // in flight
	ids int64 // IDs that they will bring
	// The largest batch that the workers are believed to allow.
	maxBatch int64

	// The largest batch at present: 1 after a batch of snowflake IDs was refused,
	// and twice that after each success.
	batch int64

	// The last request failed with an error that is not transient.
	failing bool
}

// countHanded returns the number of IDs returned. It is exact only up to the
// current chunk, whose IDs are counted as they are taken. The caller holds mu.
func (p *Prefetcher) countHanded() int64 {
	c := p.current.Load()
	if c == nil {
		return p.used
	}
	return p.used + min(c.used.Load(), c.n)
}

// refill starts requests if the IDs buffered and in flight are fewer than half
// of the target. The caller holds mu.
func (p *Prefetcher) refill() {
	have := p.stock.ids + p.requests.ids
	if have >= half(p.pace.target) && have >= min(p.waiters.n, p.cfg.Limit) {
		return
	}
	missing := max(p.pace.updateTarget(time.Now(), p.countHanded()), min(p.waiters.n, p.cfg.Limit)) - have
	most := maxRequests
	if p.requests.failing {
		most = 1
	}
	for missing > 0 && p.requests.n < most {
		n := min(missing, p.requests.maxBatch, p.requests.batch)
		missing -= n
		p.startRequest(n)
	}
}

// startRequest requests n IDs in the background. The caller holds mu.
func (p *Prefetcher) startRequest(n int64) {
	p.requests.ids += n
	p.requests.n++
	p.wg.Go(func() {
		ranges, err := p.fetch(n)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests.ids -= n
		p.requests.n--
		switch {
		case p.closed:
			return
		case err == nil:
			p.stock.add(ranges, p.wall())
			p.startAgeTimer()
			if n == p.requests.batch {
				p.requests.batch = min(2*n, p.cfg.MaxBatch)
			}
			p.requests.failing, p.waiters.reason = false, nil
			p.waiters.wake(nil)
		case errors.Is(err, ErrMalformed) && n > 1:
			// The workers allow smaller batches.
			p.requests.maxBatch = min(p.requests.maxBatch, n/2)
		// A batch may have more snowflake IDs than a worker ever makes ahead of
		// its clock.
		case isTransient(err):
			p.requests.batch = 1
		default:
			p.failWaiting(err)
			return
		}
		p.refill()
	})
}

// failWaiting returns an error to all waiters. Nothing is requested before the
// next call of Next. The caller holds mu.
func (p *Prefetcher) failWaiting(err error) {
	p.requests.failing = true
	// A request for a single ID: the batches were not too large.
	if errors.Is(err, ErrMalformed) {
		p.requests.maxBatch = p.cfg.MaxBatch
	}
	p.waiters.wake(err)
}

// pace decides how many IDs a prefetcher should buffer: twice the use of its
// callers in a Runway, so that the half at which more are requested lasts a
// Runway.
//
// The target grows at once, because callers feel a lack of IDs, but at most by
// a factor of two at a time, because the first microseconds of a burst prove
// little. It shrinks at most once per Runway, because a moment without callers
// proves nothing.
type pace struct {
	cfg    PrefetchConfig
	target int64
	since  time.Time // time of the last measurement of the rate
	handed int64     // IDs returned by then
}

func newPace(cfg PrefetchConfig, now time.Time) pace {
	return pace{cfg: cfg, target: 1, since: now}
}

// restart begins again as a new pace does.
func (p *pace) restart(now time.Time, handed int64) {
	p.target, p.since, p.handed = 1, now, handed
}

// updateTarget returns the target for the next refill, given the number of IDs
// returned so far.
func (p *pace) updateTarget(now time.Time, handed int64) int64 {
	elapsed := now.Sub(p.since)
	if elapsed <= 0 {
		return p.target
	}
	want := 2 * float64(handed-p.handed) * float64(p.cfg.Runway) / float64(elapsed)
	grows := want > float64(p.target)
	if !grows && elapsed < p.cfg.Runway {
		return p.target // too early for a measurement
	}
	want = min(want, float64(2*p.target), float64(p.cfg.Limit))
	p.target = max(int64(want), half(p.target), 1)
	p.since, p.handed = now, handed
	return p.target
}

// half returns half of n, rounded up.
func half(n int64) int64 { return n - n/2 }

// stock is the buffered IDs of a prefetcher, without the current chunk.
type stock struct {
	chunks []*chunk
	ids    int64 // in all chunks
}

// chunk is a range of buffered IDs. It fills a cache line of its own.
type chunk struct {
	first   int64
	n       int64
	used    atomic.Int64 // n or more: the chunk is used up
	arrived time.Time    // by the wall clock
	_       [16]byte
}

// add appends the ranges of a reply that has just arrived.
func (s *stock) add(ranges []Range, now time.Time) {
	for _, r := range ranges {
		s.chunks = append(s.chunks, &chunk{first: r.First, n: r.Len(), arrived: now})
		s.ids += r.Len()
	}
}

// takeChunk removes and returns the first chunk, or nil if there is none.
func (s *stock) takeChunk() *chunk {
	if len(s.chunks) == 0 {
		return nil
	}
	c := s.chunks[0]
	s.chunks[0] = nil
	s.chunks = s.chunks[1:]
	s.ids -= c.n
	return c
}

// takeID returns the next ID of the chunk. IDs are counted by their offset,
// which cannot overflow at 2^63−1 as the IDs could.
func (c *chunk) takeID() (id int64, ok bool) {
	i := c.used.Add(1) - 1
	return c.first + i, i < c.n
}

// useUp takes all IDs that are left, and returns how many others were taken
// before.
func (c *chunk) useUp() int64 { return min(c.used.Swap(c.n), c.n) }
