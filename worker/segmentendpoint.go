package worker

import (
	"errors"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// segmentEndpoint answers requests for the IDs of tags. NATS calls it from one goroutine,
// so it must not block: it answers from memory or parks the request.
type segmentEndpoint struct {
	frame
	alloc     *allocator.Allocator
	strict    *strict
	prefixLen int    // of the subject, before the tag
	buf       []byte // for replies; NATS copies them
}

func newSegmentEndpoint(cfg Config, alloc *allocator.Allocator, strict *strict, line *waitingLine, figures *requestFigures) *segmentEndpoint {
	return &segmentEndpoint{
		frame:     newFrame(cfg, line, figures),
		alloc:     alloc,
		strict:    strict,
		prefixLen: len(cfg.Prefix.Segment("")),
	}
}

// Handle is the micro.Handler.
func (e *segmentEndpoint) Handle(req micro.Request) {
	r, n, ok := e.enter(req, req.Reply(), req.Data())
	if !ok {
		return
	}
	tag := req.Subject()[e.prefixLen:]
	ids, hit := e.alloc.Take(tag, n)
	if !hit && e.strict.isStrict(tag) {
		if ids, hit = e.takeStrict(r, req, tag, n); !hit {
			return
		}
	}
	if !hit {
		e.answerOrPark(r.timed(), req.Reply(), tag, n)
		return
	}
	e.buf = messages.AppendRange(e.buf[:0], wireRange(ids))
	r.answer(e.buf, n)
}

// takeStrict returns IDs of a strict tag. If hit is false, the request has been dealt with.
func (e *segmentEndpoint) takeStrict(r request, req micro.Request, tag string, n int64) (ids store.Segment, hit bool) {
	if req.Headers().Get(messages.PrefetchHeader) != "" {
		r.fail(errPrefetch)
		return ids, false
	}
	if ids, hit = e.strict.take(tag, n); hit {
		return ids, true
	}
	if err := messages.CheckTag(tag); err != nil {
		r.fail(err)
		return ids, false
	}
	e.strict.dispatch(e.strict.newOrdered(tag, n, req.Reply(), req.Headers()))
	return ids, false
}

// answerOrPark handles a request that the current segment could not answer.
func (e *segmentEndpoint) answerOrPark(r request, replyTo, tag string, n int64) {
	if err := messages.CheckTag(tag); err != nil {
		r.fail(err)
		return
	}
	began := r.began // all that a parked request keeps of r
	finish := func(ids []store.Segment, err error) {
		if errors.Is(err, allocator.ErrTerm) { // it is a strict tag by now
			e.strict.dispatch(e.strict.newOrdered(tag, n, replyTo, nil))
			return
		}
		e.resume(replyTo, began).finish(ids, n, err)
	}
	ids, err := e.alloc.TakeOrPark(tag, n, finish)
	switch {
	case errors.Is(err, allocator.ErrTerm):
		finish(nil, err)
	case ids != nil || err != nil:
		r.finish(ids, n, err)
	}
}

// finish replies with n IDs or with an error.
func (r request) finish(ids []store.Segment, n int64, err error) {
	if err != nil {
		r.fail(err)
		return
	}
	r.answer(encodeSegments(ids), n)
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
