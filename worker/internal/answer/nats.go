package answer

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// Endpoint handles the requests of a subscription, which come from a single
// goroutine.
type Endpoint interface {
	micro.Handler

	// End returns when no request is being handled; later requests are dropped.
	// The owner of the endpoint calls it once.
	End()
}

// Barrier is what a request for IDs of a tag passes before it is answered. Pass
// returns once the segments in memory may be handed out.
type Barrier interface{ Pass() }

// Segments returns an endpoint for IDs of tags. While late is true, it refuses
// requests with [ErrOverloaded].
func (a *Answerer) Segments(late *atomic.Bool, barrier Barrier) Endpoint {
	return &segmentEndpoint{newEndpoint(a, &a.segments, len(a.cfg.Prefix.Segment("")), late), barrier}
}

// Snowflakes returns an endpoint for snowflake IDs, with late as for Segments.
// The next worker ID needs a new endpoint, because the old may still have
// requests to handle.
func (a *Answerer) Snowflakes(gen *snowflake.Generator, late *atomic.Bool) Endpoint {
	return &snowflakeEndpoint{endpoint: newEndpoint(a, &a.snowflakes, len(a.cfg.Prefix.Snowflake()), late), generator: gen}
}

type segmentEndpoint struct {
	endpoint
	barrier Barrier
}

// Handle is part of micro.Handler.
func (e *segmentEndpoint) Handle(req micro.Request) {
	if !e.begin() {
		return
	}
	defer e.done()
	n, ok := e.admit(req)
	if !ok {
		return
	}
	e.barrier.Pass()
	tag := req.Subject()[e.tagAt:]
	if ids, hit := e.alloc.Take(tag, n); hit {
		e.buf = messages.AppendRange(e.buf[:0], messages.Range{First: ids.First, Last: ids.End - 1})
		e.answer(req, n)
		return
	}
	parked, kept := &parkedRequest{Answerer: e.Answerer, tag: tag, replyTo: req.Reply(), began: e.now()}, false
	if header := req.Headers(); len(header) > 0 {
		kept = header.Get(messages.PrefetchHeader) != ""
		parked.traceparent = strings.Clone(messages.DecodeTraceparent(header)) // not the whole header
	}
	ids, err := e.takeOrPark(tag, n, kept, parked)
	switch {
	case err != nil:
		e.refuse(req, err)
	case ids != nil:
		e.buf = appendSegments(e.buf[:0], ids)
		e.answer(req, n)
	}
}

type snowflakeEndpoint struct {
	endpoint
	generator *snowflake.Generator
	ranges    []snowflake.IDRange // reused
}

// Handle is part of micro.Handler.
func (e *snowflakeEndpoint) Handle(req micro.Request) {
	if !e.begin() {
		return
	}
	defer e.done()
	n, ok := e.admit(req)
	if !ok {
		return
	}
	var err error
	if e.ranges, err = e.generator.NextN(e.ranges[:0], n); err != nil {
		e.refuse(req, err)
		return
	}
	e.buf = appendSnowflakes(e.buf[:0], e.ranges)
	e.answer(req, n)
}

// endpoint is the part that both endpoints share.
type endpoint struct {
	*Answerer
	figures  *figures
	tagAt    int // where the tag begins in a subject, or its end
	late     *atomic.Bool
	internal string // prefix of the worker's own subjects
	buf      []byte // for replies; NATS copies them

	state atomic.Int32
	idle  chan struct{} // closed when the request that End waits for is handled
}

// The states of an endpoint.
const (
	waiting int32 = iota
	handling
	ended
)

func newEndpoint(a *Answerer, f *figures, tagAt int, late *atomic.Bool) endpoint {
	return endpoint{Answerer: a, figures: f, tagAt: tagAt, late: late, internal: string(a.cfg.Prefix) + ".", idle: make(chan struct{})}
}

// begin reports whether a request may be handled. If so, done must follow.
func (e *endpoint) begin() bool { return e.state.CompareAndSwap(waiting, handling) }

func (e *endpoint) done() {
	if !e.state.CompareAndSwap(handling, waiting) {
		close(e.idle)
	}
}

// End is part of [Endpoint].
func (e *endpoint) End() {
	if e.state.Swap(ended) == handling {
		<-e.idle
	}
}

// admit returns the number of IDs that a request is for. If ok is false, the
// request was refused.
//
// The worker publishes with its own rights, and an empty message to a subject
// of the JetStream API can be a command, for example to delete a bucket. So
// some subjects get no reply at all.
func (e *endpoint) admit(req micro.Request) (n int64, ok bool) {
	reply := req.Reply()
	if reply == "" || reply[0] == '$' || strings.HasPrefix(reply, e.internal) {
		return 0, false
	}
	if e.late.Load() {
		e.refuse(req, ErrOverloaded)
		return 0, false
	}
	n, err := messages.DecodeCount(req.Data(), e.cfg.MaxBatch)
	if err != nil {
		e.refuse(req, err)
		return 0, false
	}
	return n, true
}

// answer replies with buf, which holds n IDs.
func (e *endpoint) answer(req micro.Request, n int64) {
	e.figures.byNATS.answered(n)
	_ = req.Respond(e.buf) // fails only with the connection; micro counts it
}

func (e *endpoint) refuse(req micro.Request, err error) {
	reply := e.figures.byNATS.refused(err)
	// It fails only with the connection.
	_ = req.Error(strconv.Itoa(int(reply.Code)), headerText(reply.Text), nil, micro.WithHeaders(micro.Headers(fieldsOf(reply))))
	e.figures.log.refused(req.Subject()[e.tagAt:], messages.DecodeTraceparent(req.Headers()), 0, reply)
}

// fieldsOf returns the headers of the fields of an error reply that are set.
func fieldsOf(reply *messages.Error) nats.Header {
	fields := make(nats.Header)
	if reply.MaxCount > 0 {
		fields.Set(messages.MaxCountHeader, strconv.FormatInt(reply.MaxCount, 10))
	}
	if reply.FullTemplate != "" {
		fields.Set(messages.FullTemplateHeader, reply.FullTemplate)
	}
	return fields
}

// headerText returns the text in ASCII, with a question mark for each run of
// other characters, such as a word in another language. The connection of some
// clients (jnats 2.26) receives nothing more after a header with such a character.
func headerText(text string) string {
	before := false // whether the character before was such
	return strings.Map(func(r rune) rune {
		foreign := r < ' ' || r > '~'
		first := foreign && !before
		before = foreign
		switch {
		case first:
			return '?'
		case foreign:
			return -1
		}
		return r
	}, strings.ReplaceAll(text, "…", "..."))
}

// parkedRequest is a request for IDs of a tag that gets its reply later. It
// does not keep the micro.Request: micro reads that again after the endpoint
// has returned, and it would keep the message in memory.
type parkedRequest struct {
	*Answerer
	tag         string
	replyTo     string
	traceparent string
	began       time.Duration
}

// Reply replies with IDs or an error. It may be called from any goroutine.
func (p *parkedRequest) Reply(ids []store.Segment, err error) {
	waited := p.now() - p.began
	if err != nil {
		reply := p.segments.refusedAfter(waited, err)
		msg := &nats.Msg{Subject: p.replyTo, Header: fieldsOf(reply)}
		msg.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(int(reply.Code)))
		msg.Header.Set(micro.ErrorHeader, headerText(reply.Text))
		_ = p.cfg.Requests.PublishMsg(msg) // fails only with the connection
		p.segments.log.refused(p.tag, p.traceparent, waited, reply)
		return
	}
	p.segments.answeredAfter(waited, ids)
	// It fails only with the connection.
	_ = p.cfg.Requests.Publish(p.replyTo, appendSegments(nil, ids))
	if waited > p.cfg.Slow {
		p.segments.log.slow(p.tag, p.traceparent, waited)
	}
}
