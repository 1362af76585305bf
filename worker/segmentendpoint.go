package worker

import (
	"errors"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// segments answers requests for the IDs of tags, whichever way they came. It never blocks: it answers from
// memory, parks the request, or passes it on.
type segments struct {
	alloc  *allocator.Allocator
	strict *strict
}

// segmentEndpoint answers those that come by NATS, which calls it from one goroutine.
type segmentEndpoint struct {
	frame
	segments
	prefixLen int    // of the subject, before the tag
	buf       []byte // for replies; NATS copies them
}

func newSegmentEndpoint(cfg Config, alloc *allocator.Allocator, strict *strict, line *waitingLine, figures *requestFigures) *segmentEndpoint {
	return &segmentEndpoint{
		frame:     newFrame(cfg, line, figures),
		segments:  segments{alloc, strict},
		prefixLen: len(cfg.Prefix.Segment("")),
	}
}

// Handle is the micro.Handler.
func (e *segmentEndpoint) Handle(req micro.Request) {
	r, n, ok := e.enter(req, req.Reply(), req.Data())
	if !ok {
		return
	}
	tag, kept := req.Subject()[e.prefixLen:], keepsIDs(req)
	ids, hit := e.take(tag, n, kept)
	if !hit {
		e.answerLater(r.timed(), requester{replyTo: req.Reply()}, tag, n, kept)
		return
	}
	e.buf = messages.AppendRange(e.buf[:0], wireRange(ids))
	r.answer(e.buf, n)
}

// keepsIDs reports whether a request is for IDs that are to be kept, which those of a strict tag must not.
func keepsIDs(req micro.Request) bool {
	return req.Headers() != nil && req.Headers().Get(messages.PrefetchHeader) != ""
}

// take returns n IDs if the current segment has them, and they may be answered at once. Kept says that
// they are to be kept.
func (s segments) take(tag string, n int64, kept bool) (ids store.Segment, hit bool) {
	if kept && s.strict.isStrict(tag) {
		return ids, false
	}
	ids, term, hit := s.alloc.TakeAny(tag, n)
	if hit && term != 0 {
		hit = s.strict.mayUse(tag, term, n)
	}
	return ids, hit
}

// answerLater handles a request for which take returned nothing. The request must be timed by itself.
func (s segments) answerLater(r request, by requester, tag string, n int64, kept bool) {
	switch err := messages.CheckTag(tag); {
	case err != nil:
		r.fail(err)
	case !s.strict.isStrict(tag):
		s.answerOrPark(r, by, tag, n, kept)
	case kept:
		r.fail(errPrefetch)
	default:
		s.strict.dispatch(s.strict.newOrdered(tag, n, by))
	}
}

// answerOrPark handles a request that the current segment could not answer.
func (s segments) answerOrPark(r request, by requester, tag string, n int64, kept bool) {
	frame, began := r.frame, r.began // all that a parked request keeps of r
	finish := func(ids []store.Segment, err error) {
		switch strict := errors.Is(err, allocator.ErrTerm); { // by now
		case strict && kept:
			frame.resume(by, began).fail(errPrefetch)
		case strict:
			s.strict.dispatch(s.strict.newOrdered(tag, n, by))
		default:
			frame.resume(by, began).finish(ids, n, err)
		}
	}
	ids, err := s.alloc.TakeOrParkWhile(by.wants(), tag, 0, n, s.strict.cfg.Wait, finish)
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
