package nemesis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// The callers' tags.
var (
	plainTags  = []string{"order", "invoice", "user"}
	strictTags = []string{"doc.a", "doc.b", "doc.c", "doc.d", "doc.e", "doc.f"}
)

const (
	eventTag     = "event"  // of the enriched events, requested by callers, too
	templateTags = "chat.*" // tags that come into being
	templateKeep = 100      // the latest tags, which are requested again
	patience     = 5 * time.Second
	slack        = 6 * time.Second // that a call may take beyond its deadline, see [messages.Client.Next]
	maxBatch     = 10_000
	rawPatience  = 2500 * ms // a worker lets a request wait for 2 s
)

// callers request IDs until the run ends.
type callers struct {
	run     *Run
	stop    context.Context
	wg      sync.WaitGroup
	conns   []*nats.Conn
	http    *balancer
	random  uint64
	created int // tags of the template that may be there by now
	mu      sync.Mutex
}

// connect returns a connection through the proxies of the callers.
func (c *callers) connect() *nats.Conn {
	conn, err := nats.Connect(strings.Join(c.run.urls["callers"], ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*ms),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.RetryOnFailedConnect(true), nats.Name("caller"),
		nats.ReconnectBufSize(-1))
	c.run.must(err)
	c.conns = append(c.conns, conn)
	return conn
}

// callerGroup is a number of callers of a kind, each sending so many requests a
// second, and waiting for each answer.
type callerGroup struct {
	kind    Kind
	callers int
	rate    float64
	ask     func(*caller) *Call
}

// caller is a member of a group.
type caller struct {
	*callers
	kind   Kind
	client *messages.Client
	raw    *rawCaller
	random *rand.Rand
}

// startCallers starts all callers.
func (r *Run) startCallers(stop context.Context) *callers {
	c := &callers{run: r, stop: stop, http: newBalancer(r.apis, httpSilence)}
	groups := []callerGroup{
		{Single, 4, 100, (*caller).single},
		{Batch, 3, 35, (*caller).batch},
		{Raw, 2, 100, (*caller).rawPlain},
		{Strict, 4, 100, (*caller).strict},
		{Template, 2, 50, (*caller).template},
		{Snowflake, 3, 100, (*caller).snowflake},
		{HTTP, 3, 50, (*caller).httpPlain},
		{HTTPStrict, 3, 50, (*caller).httpStrict},
	}
	for _, s := range groups {
		for range s.callers {
			conn := c.connect()
			c.random++
			one := &caller{callers: c, kind: s.kind, client: messages.NewClient(conn, messages.DefaultPrefix), random: rand.New(rand.NewPCG(r.Seed, c.random))}
			if s.kind == Raw || s.kind == Strict {
				one.raw = newRawCaller(r, s.kind, conn)
			}
			c.wg.Go(func() { one.askAll(s) })
		}
	}
	conn := c.connect()
	for _, tag := range plainTags[:2] {
		c.wg.Go(func() { c.prefetch(messages.NewClient(conn, messages.DefaultPrefix), tag) })
	}
	return c
}

// finish waits for the callers' last answers.
func (c *callers) finish() {
	c.wg.Wait()
	time.Sleep(time.Second) // late answers
	for _, conn := range c.conns {
		conn.Close()
	}
	c.http.client.CloseIdleConnections()
}

// askAll sends requests at a rate.
func (c *caller) askAll(s callerGroup) {
	for range ticks(c.stop, time.Duration(float64(time.Second)/s.rate)) {
		if call := s.ask(c); call != nil {
			c.run.record(call)
		}
	}
}

// ticks come at an interval, until a context ends. A tick without a receiver is
// dropped.
func ticks(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case at := <-ticker.C:
				if !yield(at) {
					return
				}
			}
		}
	}
}

// count returns the IDs of a batch: 1 to 10 is as likely as 1,000 to 10,000.
func (c *caller) count() int64 { return int64(math.Exp(c.random.Float64() * math.Log(maxBatch))) }

// ask requests IDs with the Go client, which retries until the deadline.
func (c *caller) ask(tag string, count int64, f func(context.Context) ([]messages.Range, error)) *Call {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	call := &Call{Kind: c.kind, Tag: tag, Count: count, Sent: c.run.now()}
	var err error
	if call.Ranges, err = f(ctx); err != nil {
		call.Ranges, call.Err = nil, err.Error()
		c.run.unexpected(call, err)
	}
	if took := c.run.now() - call.Sent; took > patience+slack {
		c.run.note("a %s call of %s took %v, its deadline was %v", c.kind, tag, took.Round(ms), patience)
	}
	return call
}

func (c *caller) single() *Call {
	tags := append(plainTags[:len(plainTags):len(plainTags)], eventTag)
	tag := tags[c.random.IntN(len(tags))]
	return c.ask(tag, 1, func(ctx context.Context) ([]messages.Range, error) { return c.client.NextN(ctx, tag, 1) })
}

func (c *caller) batch() *Call {
	tag, n := plainTags[c.random.IntN(len(plainTags))], c.count()
	return c.ask(tag, n, func(ctx context.Context) ([]messages.Range, error) { return c.client.NextN(ctx, tag, n) })
}

func (c *caller) snowflake() *Call {
	n := int64(1)
	if c.random.IntN(4) == 0 {
		n += c.random.Int64N(200)
	}
	return c.ask("", n, func(ctx context.Context) ([]messages.Range, error) { return c.client.SnowflakeN(ctx, n) })
}

// template requests an ID of a recent tag, or of a new tag.
func (c *caller) template() *Call {
	c.mu.Lock()
	if c.random.IntN(50) == 0 {
		c.created++
	}
	tag := fmt.Sprintf("chat.%d", max(0, c.created-c.random.IntN(templateKeep)))
	c.mu.Unlock()
	return c.ask(tag, 1, func(ctx context.Context) ([]messages.Range, error) { return c.client.NextN(ctx, tag, 1) })
}

func (c *caller) rawPlain() *Call {
	return c.raw.ask(plainTags[c.random.IntN(len(plainTags))], 1+c.random.Int64N(20))
}

func (c *caller) strict() *Call {
	n := int64(1)
	if c.random.IntN(4) == 0 {
		n += c.random.Int64N(300)
	}
	return c.raw.ask(strictTags[c.random.IntN(len(strictTags))], n)
}

// prefetch takes IDs out of a prefetcher, many at a time.
func (c *callers) prefetch(client *messages.Client, tag string) {
	p, err := client.Prefetch(tag, messages.PrefetchConfig{})
	if err != nil {
		c.run.checker.Violation("prefetch: %v", err)
		return
	}
	defer p.Close()
	for range ticks(c.stop, 20*ms) {
		for range 100 {
			if err := c.prefetched(p, tag); err != nil {
				break
			}
		}
	}
}

func (c *callers) prefetched(p *messages.Prefetcher, tag string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	call := &Call{Kind: Prefetched, Tag: tag, Count: 1, Sent: c.run.now()}
	id, err := p.Next(ctx)
	if call.Ranges = []messages.Range{{First: id, Last: id}}; err != nil {
		call.Ranges, call.Err = nil, err.Error()
		c.run.unexpected(call, err)
	}
	c.run.record(call)
	return err
}

// unexpected finds errors that no fault explains. A tag or a template may be
// lost, until an operator creates it again.
func (r *Run) unexpected(call *Call, err error) {
	if errors.Is(err, messages.ErrNoTag) && r.lost.Load() {
		r.missing.Store(true)
	} else if isFinal(err) {
		r.checker.Violation("REFUSED: %s of %q: %v", call.Kind, call.Tag, err)
	}
}

// isFinal reports whether an error means that the request, the tag or the
// answer is wrong, so that a retry cannot succeed.
func isFinal(err error) bool {
	for _, final := range []error{messages.ErrMalformed, messages.ErrNoTag, messages.ErrStrict, messages.ErrExhausted, messages.ErrReply} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// rawCaller sends each request once. An answer counts whenever it comes: the
// worst that a worker that was paused can do is to answer late.
type rawCaller struct {
	run   *Run
	kind  Kind
	conn  *nats.Conn
	inbox string

	mu      sync.Mutex
	number  int
	pending map[string]*rawCall
}

type rawCall struct {
	call *Call
	done chan *Call // buffered
}

func newRawCaller(r *Run, kind Kind, conn *nats.Conn) *rawCaller {
	c := &rawCaller{run: r, kind: kind, conn: conn, inbox: conn.NewRespInbox(), pending: make(map[string]*rawCall)}
	sub, err := conn.Subscribe(c.inbox+".*", c.receive)
	r.must(err)
	r.must(sub.SetPendingLimits(-1, -1))
	return c
}

// ask sends a request, and waits for the answer for a time. A late answer is
// recorded when it comes.
func (c *rawCaller) ask(tag string, n int64) *Call {
	p := &rawCall{call: &Call{Kind: c.kind, Tag: tag, Count: n}, done: make(chan *Call, 1)}
	c.mu.Lock()
	c.number++
	inbox := fmt.Sprintf("%s.%d", c.inbox, c.number)
	c.pending[inbox] = p
	p.call.Sent = c.run.now()
	sent := *p.call
	c.mu.Unlock()
	if err := c.conn.PublishRequest(messages.DefaultPrefix.Segment(tag), inbox, messages.EncodeCount(n)); err != nil {
		c.mu.Lock()
		delete(c.pending, inbox)
		c.mu.Unlock()
		sent.Err = err.Error()
		return &sent
	}
	select {
	case call := <-p.done:
		return call
	case <-time.After(rawPatience):
	}
	sent.Err = context.DeadlineExceeded.Error()
	return &sent
}

// receive records an answer with IDs at once, so that none is recorded after a
// later answer. It passes errors to ask.
func (c *rawCaller) receive(msg *nats.Msg) {
	c.mu.Lock()
	p := c.pending[msg.Subject]
	delete(c.pending, msg.Subject)
	c.mu.Unlock()
	if p == nil {
		c.run.checker.Violation("ANSWERED TWICE: a request of %s on %s: %q", c.kind, msg.Subject, msg.Data)
		return
	}
	ranges, err := messages.DecodeReply(msg, p.call.Count)
	if err != nil {
		p.call.Err = err.Error()
		c.run.unexpected(p.call, err)
		p.done <- p.call
		return
	}
	p.call.Ranges = ranges
	c.run.record(p.call)
	if p.call.Received-p.call.Sent > rawPatience {
		c.run.late.Add(1)
	}
	p.done <- nil
}
