package worker

import (
	"errors"
	"strconv"
	"strings"

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
	alloc    *allocator.Allocator
	conn     *nats.Conn
	maxBatch int64
	prefix   int // length of the subject before the tag
	replies  replyCheck
	buf      []byte // for replies; NATS copies them
}

func newSegmentEndpoint(cfg Config, alloc *allocator.Allocator) *segmentEndpoint {
	return &segmentEndpoint{
		alloc:    alloc,
		conn:     cfg.Requests,
		maxBatch: cfg.MaxBatch,
		prefix:   len(cfg.Prefix.Segment("")),
		replies:  newReplyCheck(cfg.Prefix),
	}
}

// Handle is the micro.Handler.
func (e *segmentEndpoint) Handle(req micro.Request) {
	if !e.replies.ok(req.Reply()) {
		return
	}
	tag := req.Subject()[e.prefix:]
	n, err := messages.DecodeCount(req.Data(), e.maxBatch)
	if err != nil {
		respondError(req, err)
		return
	}
	ids, ok := e.alloc.Take(tag, n)
	if !ok {
		e.miss(req, tag, n)
		return
	}
	e.buf = messages.AppendRange(e.buf[:0], wireRange(ids))
	_ = req.Respond(e.buf) // fails only with the connection; micro counts it
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
	if err := messages.CheckTag(tag); err != nil {
		respondError(req, err)
		return
	}
	reply := req.Reply()
	ids, err := e.alloc.Ask(tag, n, func(ids []store.Segment, err error) {
		e.respondLater(reply, ids, err)
	})
	switch {
	case err != nil:
		respondError(req, err)
	case ids != nil:
		_ = req.Respond(encodeSegments(ids))
	}
}

// respondLater answers a request that was parked.
func (e *segmentEndpoint) respondLater(reply string, ids []store.Segment, err error) {
	msg := nats.NewMsg(reply)
	if err == nil {
		msg.Data = encodeSegments(ids)
	} else {
		code, text := wireError(err)
		msg.Header.Set(micro.ErrorCodeHeader, code)
		msg.Header.Set(micro.ErrorHeader, text)
	}
	_ = e.conn.PublishMsg(msg) // fails only with the connection
}

func respondError(req micro.Request, err error) {
	code, text := wireError(err)
	_ = req.Error(code, text, nil) // fails only with the connection
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
	{allocator.ErrNoSegment, messages.CodeUnavailable},
	{snowflake.ErrAhead, messages.CodeBusy},
	{snowflake.ErrExhausted, messages.CodeExhausted},
}

// wireError returns the headers of an error reply. Unlike in Go, the text stands
// alone there, so it names no package and no sentinel twice.
func wireError(err error) (code, text string) {
	for _, w := range wireErrors {
		if errors.Is(err, w.err) {
			return strconv.Itoa(int(w.code)), err.Error()
		}
	}
	return strconv.Itoa(int(messages.CodeUnavailable)), err.Error()
}
