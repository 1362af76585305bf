package messages

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// maxJoined is the maximum number of calls in a batch. More gain little, and
	// a lost reply would lose more IDs.
	maxJoined = 256

	// maxGather is how long a batch waits for the token. So a lost request or a
	// distant worker delays the calls after it by a millisecond.
	maxGather = time.Millisecond

	// distant is the time of a request after which the next batch does not wait.
	// Compared with that time, waiting would cost callers more than it saves.
	distant = 5 * time.Millisecond

	// maxTogether is how long a batch repeats its request while workers are
	// silent: longer than a store takes to grant IDs of a strict tag, and shorter
	// than callers wait.
	maxTogether = 500 * time.Millisecond

	// limitLasts is how long a client remembers that workers refused a batch
	// because of its size.
	limitLasts = time.Minute
)

// coalescer joins concurrent calls for one ID of a subject into requests for
// many.
//
// Each subject has a token. A call that finds it free sends its request alone,
// at once. Calls that come before the token is back gather in a batch, which
// becomes the next request. No call joins a request that was sent: a strict
// tag's ID must be higher than all IDs returned before the call began.
//
// The token comes back after the first try, so no retry delays other calls. A
// batch continues together only while workers are silent; any other trouble
// sends its calls on alone, because IDs may be left for some of them.
type coalescer struct {
	mu      sync.Mutex
	lanes   map[string]*lane // by tag, "" for snowflake IDs; while in use
	limit   int64            // of calls in a batch
	limited time.Time        // when the workers lowered the limit, if they did
}

// lane is the requests for a subject. The coalescer's mu guards its fields.
type lane struct {
	client       *Client
	tag, subject string
	token        chan struct{} // holds the token while it is free
	taken        time.Time     // when it was taken
	took         time.Duration // how long it is out, as recordTime estimates
	users        int           // requests that have the token or may get it
	gathering    *batch        // nil if none gathers
}

// batch is calls that travel as one request.
type batch struct {
	trace  string          // of the call that began it
	ctx    context.Context // ends when all calls have left
	cancel context.CancelFunc
	wait   time.Duration // for the token
	full   chan struct{} // closed when no further call can join

	// The coalescer's mu guards these.
	calls, left int64 // joined; left since
	request     *call // nil until it is sent

	done   chan struct{} // closed when these are set
	alone  bool          // each call continues alone
	ranges []Range
	err    error
}

// next returns an ID of a tag, or a snowflake ID if the tag is empty. Errors as
// for [Client.Next].
func (c *Client) next(ctx context.Context, tag string) (int64, error) {
	id, err := c.nextTogether(ctx, tag)
	c.note(tag, err)
	return id, err
}

// nextTogether is next without the notes.
func (c *Client) nextTogether(ctx context.Context, tag string) (int64, error) {
	if c.bad != nil {
		return 0, c.bad
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("request %s: %w", c.subject(tag), err)
	}
	// Before the call has anything that others wait for: the application's code may
	// block, panic, or request an ID itself.
	trace := c.traceOf(ctx)
	c.watch()
	l, b, i := c.coalescer.enter(c, tag, trace)
	switch {
	case l == nil:
		return firstID(newCall(c, c.subject(tag), 1, trace).run(ctx))
	case b == nil:
		return firstID(l.sendFirst(ctx, trace))
	}
	return l.await(ctx, b, i, trace)
}

// subject is that of requests for IDs of a tag, or for snowflake IDs.
func (c *Client) subject(tag string) string {
	if tag == "" {
		return c.prefix.Snowflake()
	}
	return c.prefix.Segment(tag)
}

// enter returns the lane of a call that has its token, or the lane and the batch
// that the call joined, as number i from 0. It returns no lane if workers allow
// one ID a request.
func (co *coalescer) enter(c *Client, tag, trace string) (l *lane, b *batch, i int64) {
	co.mu.Lock()
	defer co.mu.Unlock()
	if !co.limited.IsZero() && time.Since(co.limited) > limitLasts {
		co.limit, co.limited = maxJoined, time.Time{}
	}
	if co.limit == 1 {
		return nil, nil, 0
	}
	if l = co.lanes[tag]; l == nil {
		l = &lane{client: c, tag: tag, subject: c.subject(tag), token: make(chan struct{}, 1)}
		l.token <- struct{}{}
		if co.lanes == nil {
			co.lanes = make(map[string]*lane)
		}
		co.lanes[tag] = l
	}
	select {
	case <-l.token:
		l.users++
		l.taken = time.Now()
		return l, nil, 0
	default:
		b, i = l.join(trace, co.limit)
		return l, b, i
	}
}

// join adds a call to the batch that gathers, as number i. The caller holds mu.
func (l *lane) join(trace string, limit int64) (b *batch, i int64) {
	if b = l.gathering; b == nil {
		b = &batch{trace: trace, wait: maxGather, full: make(chan struct{}), done: make(chan struct{})}
		if l.took > distant {
			b.wait = 0
		}
		b.ctx, b.cancel = context.WithCancel(context.Background())
		l.gathering = b
		l.users++
		go l.send(b)
	}
	i = b.calls
	if b.calls++; b.calls >= limit {
		l.gathering = nil
		close(b.full)
	}
	return b, i
}

// sendFirst makes the call that has the token.
func (l *lane) sendFirst(ctx context.Context, trace string) ([]Range, error) {
	c := newCall(l.client, l.subject, 1, trace)
	defer c.end()
	ranges, err := c.tryOnce(ctx)
	l.leave(true)
	if c.isOver(err) {
		return ranges, err
	}
	return c.tryAgain(ctx)
}

// send sends a batch.
func (l *lane) send(b *batch) {
	defer b.cancel()
	hasToken := l.gather(b)
	c := l.seal(b, hasToken)
	defer c.end()
	ranges, err := c.tryOnce(b.ctx)
	if !c.isOver(err) {
		l.leave(hasToken)
		ctx, cancel := context.WithTimeout(b.ctx, maxTogether)
		defer cancel()
		ranges, err = c.tryAgain(ctx)
		l.settle(b, ranges, err)
		return
	}
	l.settle(b, ranges, err)
	// Lets the calls return, and their callers call again, so that these join the
	// next batch. Otherwise, batches of one and of all others alternate.
	runtime.Gosched()
	l.leave(hasToken)
}

// gather waits until a batch has the token, is full, or has waited long enough.
// It reports whether the batch has the token.
func (l *lane) gather(b *batch) (hasToken bool) {
	if b.wait == 0 {
		runtime.Gosched() // so that calls that are about to begin join
	}
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case <-l.token:
		return true
	case <-b.full:
	case <-timer.C:
	case <-b.ctx.Done():
	}
	return false
}

// seal ends the gathering of a batch, and returns its request.
func (l *lane) seal(b *batch, hasToken bool) *call {
	c := newCall(l.client, l.subject, 0, b.trace) // may wait for the connection's lock
	c.hasty = true
	co := &l.client.coalescer
	co.mu.Lock()
	defer co.mu.Unlock()
	if hasToken {
		l.taken = time.Now()
	}
	if l.gathering == b {
		l.gathering = nil
	}
	c.n, b.request = b.calls, c
	return c
}

// settle ends a batch.
func (l *lane) settle(b *batch, ranges []Range, err error) {
	n := b.request.n
	tooLarge := n > 1 && errors.Is(err, ErrMalformed)
	if tooLarge {
		l.client.coalescer.lowerLimit(n / 2)
	}
	b.ranges, b.err = ranges, err
	b.alone = isTransient(err) || tooLarge || n > 1 && errors.Is(err, ErrExhausted)
	close(b.done)
}

// lowerLimit keeps batches within the limit of workers that refused one.
func (co *coalescer) lowerLimit(limit int64) {
	co.mu.Lock()
	defer co.mu.Unlock()
	co.limit, co.limited = min(co.limit, limit), time.Now()
}

// leave ends the use of a lane by a request. The last one removes the lane.
func (l *lane) leave(hasToken bool) {
	co := &l.client.coalescer
	co.mu.Lock()
	defer co.mu.Unlock()
	if hasToken {
		l.recordTime(time.Since(l.taken))
		l.token <- struct{}{}
	}
	if l.users--; l.users == 0 {
		delete(co.lanes, l.tag)
	}
}

// recordTime records how long the token was out. One slow request does not make
// a worker distant. The caller holds mu.
func (l *lane) recordTime(took time.Duration) { l.took = min(took, max(2*l.took, maxGather)) }

// await returns the ID of call i of a batch.
func (l *lane) await(ctx context.Context, b *batch, i int64, trace string) (int64, error) {
	select {
	case <-b.done:
	case <-ctx.Done():
		select {
		case <-b.done: // an ID that has arrived is not lost
		default:
			return 0, l.abandon(ctx, b)
		}
	}
	switch {
	case b.alone:
		c := newCall(l.client, l.subject, 1, trace)
		c.reason = b.request.reason
		c.tries.Store(b.request.tries.Load())
		return firstID(c.run(ctx))
	case b.err != nil:
		return 0, b.err
	}
	return idAt(b.ranges, i), nil
}

// abandon ends a call of a batch whose ctx has ended. Its ID is a gap. With the
// last call, the request ends.
func (l *lane) abandon(ctx context.Context, b *batch) error {
	co := &l.client.coalescer
	co.mu.Lock()
	defer co.mu.Unlock()
	if b.left++; b.left == b.calls {
		if l.gathering == b {
			l.gathering = nil
		}
		b.cancel()
	}
	var tries int64
	if b.request != nil {
		tries = b.request.tries.Load()
	}
	return timeoutError(ctx, l.subject, nats.ErrTimeout, tries)
}

// idAt returns ID i, from 0, of ranges that hold it.
func idAt(ranges []Range, i int64) int64 {
	r := ranges[0]
	for n := 1; i >= r.Len(); n++ {
		i -= r.Len()
		r = ranges[n]
	}
	return r.First + i
}

// firstID returns the first ID of a reply.
func firstID(ranges []Range, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}
