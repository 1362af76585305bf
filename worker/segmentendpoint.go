package worker

import (
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
	r, n, ok := e.enter(req)
	if !ok {
		return
	}
	tag := req.Subject()[e.prefixLen:]
	ids, hit := e.alloc.Take(tag, n)
	if !hit {
		e.answerOrPark(r.timed(), req.Reply(), tag, n)
		return
	}
	e.buf = messages.AppendRange(e.buf[:0], wireRange(ids))
	r.answer(e.buf, n)
}

// answerOrPark handles a request that the current segment could not answer.
func (e *segmentEndpoint) answerOrPark(r request, replyTo, tag string, n int64) {
	if err := messages.CheckTag(tag); err != nil {
		r.fail(err)
		return
	}
	began := r.began // all that a parked request keeps of r
	ids, err := e.alloc.TakeOrPark(tag, n, func(ids []store.Segment, err error) {
		e.resume(replyTo, began).finish(ids, n, err)
	})
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
