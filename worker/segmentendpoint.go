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
	if keepsIDs(req) && e.strict.isStrict(tag) {
		r.fail(errPrefetch)
		return
	}
	ids, term, hit := e.alloc.TakeAny(tag, n)
	if hit && term != 0 {
		hit = e.strict.mayUse(tag, term, n)
	}
	if !hit {
		e.answerLater(r, req, tag, n)
		return
	}
	e.buf = messages.AppendRange(e.buf[:0], wireRange(ids))
	r.answer(e.buf, n)
}

// keepsIDs reports whether a request is for IDs that are to be kept, which those of a strict tag must not.
func keepsIDs(req micro.Request) bool {
	return req.Headers() != nil && req.Headers().Get(messages.PrefetchHeader) != ""
}

// answerLater handles a request that is not answered from the current segment.
func (e *segmentEndpoint) answerLater(r request, req micro.Request, tag string, n int64) {
	switch err := messages.CheckTag(tag); {
	case err != nil:
		r.fail(err)
	case !e.strict.isStrict(tag):
		e.answerOrPark(r.timed(), req.Reply(), tag, n, keepsIDs(req))
	case keepsIDs(req): // it became strict just now
		r.fail(errPrefetch)
	default:
		e.strict.dispatch(e.strict.newOrdered(tag, n, req.Reply()))
	}
}

// answerOrPark handles a request that the current segment could not answer. Kept says that its IDs are to
// be kept.
func (e *segmentEndpoint) answerOrPark(r request, replyTo, tag string, n int64, kept bool) {
	began := r.began // all that a parked request keeps of r
	finish := func(ids []store.Segment, err error) {
		switch strict := errors.Is(err, allocator.ErrTerm); { // by now
		case strict && kept:
			e.resume(replyTo, began).fail(errPrefetch)
		case strict:
			e.strict.dispatch(e.strict.newOrdered(tag, n, replyTo))
		default:
			e.resume(replyTo, began).finish(ids, n, err)
		}
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
