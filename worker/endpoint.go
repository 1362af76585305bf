package worker

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// segmentEndpoint answers requests for the IDs of tags. NATS calls it from one
// goroutine, so it must not block: it answers from memory, or parks the request.
type segmentEndpoint struct {
	gate
	alloc    *allocator.Allocator
	conn     *nats.Conn
	maxBatch int64
	prefix   int    // length of the subject before the tag
	buf      []byte // for replies; NATS copies them
}

func newSegmentEndpoint(cfg Config, alloc *allocator.Allocator, figures *requestFigures, line *waitingLine) *segmentEndpoint {
	return &segmentEndpoint{
		gate:     gate{replies: newReplyCheck(cfg.Prefix), line: line, figures: figures},
		alloc:    alloc,
		conn:     cfg.Requests,
		maxBatch: cfg.MaxBatch,
		prefix:   len(cfg.Prefix.Segment("")),
	}
}

// Handle is the micro.Handler.
func (e *segmentEndpoint) Handle(req micro.Request) {
	began, ok := e.enter(req)
	if !ok {
		return
	}
	tag := req.Subject()[e.prefix:]
	n, err := messages.DecodeCount(req.Data(), e.maxBatch)
	if err != nil {
		e.fail(req, err, began)
		return
	}
	ids, hit := e.alloc.Take(tag, n)
	if !hit {
		e.miss(req, tag, n)
		return
	}
	e.buf = messages.AppendRange(e.buf[:0], wireRange(ids))
	_ = req.Respond(e.buf) // fails only with the connection; micro counts it
	e.gave(n, began)
}

// replyCheck refuses subjects to which no reply must go. It is the worker that
// publishes it, with the worker's rights, and an empty reply to a JetStream API subject
// can be a command, to delete a bucket, say.
type replyCheck struct{ own string }

func newReplyCheck(prefix messages.Prefix) replyCheck { return replyCheck{string(prefix) + "."} }

func (c replyCheck) ok(reply string) bool {
	return reply != "" && reply[0] != '$' && !strings.HasPrefix(reply, c.own)
}

// miss handles a request that is not a plain hit. It does not touch req once the
// request is parked: micro reads it when Handle has returned.
func (e *segmentEndpoint) miss(req micro.Request, tag string, n int64) {
	began := elapsed()
	if err := messages.CheckTag(tag); err != nil {
		e.figures.fail(req, err, elapsed()-began)
		return
	}
	reply := req.Reply()
	ids, err := e.alloc.TakeOrPark(tag, n, func(ids []store.Segment, err error) {
		e.respondLater(reply, ids, err)
		e.note(n, err, elapsed()-began)
	})
	switch {
	case err != nil:
		e.figures.fail(req, err, elapsed()-began)
	case ids != nil:
		_ = req.Respond(encodeSegments(ids))
		e.figures.gave(n, elapsed()-began)
	}
}

// note notes a request that was parked.
func (e *segmentEndpoint) note(n int64, err error, took time.Duration) {
	if err == nil {
		e.figures.gave(n, took)
		return
	}
	code, _ := wireError(err)
	e.figures.failed(code, took)
}

// respondLater answers a request that was parked.
func (e *segmentEndpoint) respondLater(reply string, ids []store.Segment, err error) {
	msg := nats.NewMsg(reply)
	if err == nil {
		msg.Data = encodeSegments(ids)
	} else {
		code, text := wireError(err)
		msg.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(int(code)))
		msg.Header.Set(micro.ErrorHeader, text)
	}
	_ = e.conn.PublishMsg(msg) // fails only with the connection
}

func encodeSegments(ids []store.Segment) (reply []byte) {
	for _, s := range ids {
		reply = messages.AppendRange(reply, wireRange(s))
	}
	return reply
}

func wireRange(s store.Segment) messages.Range {
	return messages.Range{First: s.First, Last: s.End - 1}
}

// wireErrors says under which code of the contract an error goes out.
var wireErrors = []struct {
	err  error
	code messages.Code
}{
	{messages.ErrCount, messages.CodeMalformed},
	{messages.ErrTag, messages.CodeMalformed},
	{store.ErrNoTag, messages.CodeNoTag},
	{store.ErrExhausted, messages.CodeExhausted},
	{allocator.ErrBusy, messages.CodeBusy},
	{errQueued, messages.CodeBusy},
	{allocator.ErrNoSegment, messages.CodeUnavailable},
	{snowflake.ErrAhead, messages.CodeBusy},
	{snowflake.ErrExhausted, messages.CodeExhausted},
}

// wireError returns what the headers of an error reply say. Unlike in Go, the text stands
// alone there, so it names no package and no sentinel twice.
func wireError(err error) (code messages.Code, text string) {
	for _, w := range wireErrors {
		if errors.Is(err, w.err) {
			return w.code, err.Error()
		}
	}
	return messages.CodeUnavailable, err.Error()
}
