package worker

import (
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// segmentEndpoint answers requests for the IDs of tags that come by NATS, which calls it
// from one goroutine. It never blocks: it answers from memory, or parks the request.
type segmentEndpoint struct {
	frame
	alloc     *allocator.Allocator
	prefixLen int    // of the subject, before the tag
	buf       []byte // for replies; NATS copies them
}

func newSegmentEndpoint(cfg Config, alloc *allocator.Allocator, line *waitingLine, figures *requestFigures) *segmentEndpoint {
	return &segmentEndpoint{
		frame:     newFrame(cfg, line, figures),
		alloc:     alloc,
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
	if !hit {
		r.timed().answerOrPark(e.alloc, requester{replyTo: req.Reply()}, tag, n, keepsIDs(req))
		return
	}
	e.buf = messages.AppendRange(e.buf[:0], wireRange(ids))
	r.answer(e.buf, n)
}

// keepsIDs reports whether a request is for IDs that are to be kept, which those of a strict
// tag must not.
func keepsIDs(req micro.Request) bool {
	return req.Headers() != nil && req.Headers().Get(messages.PrefetchHeader) != ""
}

// answerOrPark handles a request that the current segment could not answer, which is timed
// by itself.
func (r request) answerOrPark(alloc *allocator.Allocator, by requester, tag string, n int64, kept bool) {
	if err := messages.CheckTag(tag); err != nil {
		r.fail(err)
		return
	}
	frame, began := r.frame, r.began // all that a parked request keeps of r
	ids, err := alloc.TakeOrPark(tag, allocator.Request{N: n, Kept: kept, Wanted: by.wants(), Answer: func(ids []store.Segment, err error) {
		frame.resume(by, began).finish(ids, n, err)
	}})
	if ids != nil || err != nil {
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
