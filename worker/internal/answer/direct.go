package answer

import (
	"context"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// maxDigits bounds the length of an ID plus its separator.
const maxDigits = 20

// Segment returns IDs of a tag, as the body of a NATS reply; see package
// messages. Count is the body of a request: empty for one ID, or an ASCII
// decimal up to Config.MaxBatch. Kept declares that the IDs are kept for later,
// which strict tags refuse. Traceparent names the caller's trace in the log; it
// may be empty.
//
// It waits at most as long as the allocator parks requests. When ctx ends, the
// request is withdrawn, and the error is the cause. All others are of type
// [*messages.Error].
func (a *Answerer) Segment(ctx context.Context, tag string, count []byte, kept bool, traceparent string) (reply []byte, err error) {
	n, err := messages.DecodeCount(count, a.cfg.MaxBatch)
	if err != nil {
		return nil, a.RefuseSegment(tag, traceparent, err)
	}
	if ids, hit := a.alloc.Take(tag, n); hit {
		a.segments.direct.answered(n)
		return messages.AppendRange(make([]byte, 0, 2*maxDigits), messages.Range{First: ids.First, Last: ids.End - 1}), nil
	}
	began, call := a.now(), make(directCall, 1)
	ids, err := a.takeOrPark(tag, n, kept, call)
	switch {
	case err != nil:
		return nil, a.RefuseSegment(tag, traceparent, err)
	case ids != nil:
		a.segments.direct.answered(n)
		return appendSegments(nil, ids), nil
	}
	select {
	case r := <-call:
		waited := a.now() - began
		if r.err != nil {
			reply := a.segments.refusedAfter(waited, r.err)
			a.segments.log.refused(tag, traceparent, waited, reply)
			return nil, reply
		}
		a.segments.answeredAfter(waited, r.ids)
		if waited > a.cfg.Slow {
			a.segments.log.slow(tag, traceparent, waited)
		}
		return appendSegments(nil, r.ids), nil
	case <-ctx.Done():
		// If the reply comes anyway, its IDs are burnt.
		a.alloc.Withdraw(tag, call)
		return nil, context.Cause(ctx)
	}
}

// Snowflake returns snowflake IDs in the same form as Segment.
func (a *Answerer) Snowflake(count []byte, gen *snowflake.Generator, traceparent string) (reply []byte, err error) {
	n, err := messages.DecodeCount(count, a.cfg.MaxBatch)
	if err != nil {
		return nil, a.RefuseSnowflake(traceparent, err)
	}
	var room [1]snowflake.IDRange
	ids, err := gen.NextN(room[:0], n)
	if err != nil {
		return nil, a.RefuseSnowflake(traceparent, err)
	}
	a.snowflakes.direct.answered(n)
	return appendSnowflakes(make([]byte, 0, 2*maxDigits), ids), nil
}

// RefuseSegment counts and logs a request that the process rejects as a refused
// Segment, and returns the error reply for the reason.
func (a *Answerer) RefuseSegment(tag, traceparent string, reason error) *messages.Error {
	return a.segments.refuseDirect(tag, traceparent, reason)
}

// RefuseSnowflake is RefuseSegment for requests of Snowflake.
func (a *Answerer) RefuseSnowflake(traceparent string, reason error) *messages.Error {
	return a.snowflakes.refuseDirect("", traceparent, reason)
}

func (f *figures) refuseDirect(tag, traceparent string, reason error) *messages.Error {
	reply := f.direct.refused(reason)
	f.log.refused(tag, traceparent, 0, reply)
	return reply
}

// directCall is a parked request of Segment. Its capacity is 1, so replying
// never blocks, even if the caller is gone.
type directCall chan directReply

type directReply struct {
	ids []store.Segment
	err error
}

// Reply hands the reply to the caller. It may be called from any goroutine.
func (c directCall) Reply(ids []store.Segment, err error) { c <- directReply{ids, err} }
