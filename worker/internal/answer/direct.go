package answer

import (
	"context"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// maxDigits is more than an ID and what separates it from the next can have.
const maxDigits = 20

// Segment returns IDs of a tag: the body of a reply by NATS, see package messages. Count
// is the body of a request: empty for one ID, or an ASCII decimal up to Config.MaxBatch.
// Kept is true if the IDs are kept for later, which those of a strict tag must not be.
//
// It waits at most as long as the allocator parks requests. When ctx ends, the request
// is withdrawn, and the error is the cause. All others are of type [*messages.Error].
func (a *Answerer) Segment(ctx context.Context, tag string, count []byte, kept bool) (reply []byte, err error) {
	n, err := messages.DecodeCount(count, a.cfg.MaxBatch)
	if err != nil {
		return nil, a.segments.direct.refused(err)
	}
	if ids, hit := a.alloc.Take(tag, n); hit {
		a.segments.direct.answered(n)
		return messages.AppendRange(make([]byte, 0, 2*maxDigits), messages.Range{First: ids.First, Last: ids.End - 1}), nil
	}
	began, call := a.now(), make(directCall, 1)
	ids, err := a.takeOrPark(tag, n, kept, call)
	switch {
	case err != nil:
		return nil, a.segments.direct.refused(err)
	case ids != nil:
		a.segments.direct.answered(n)
		return appendSegments(nil, ids), nil
	}
	select {
	case r := <-call:
		if r.err != nil {
			return nil, a.segments.refusedAfter(a.now()-began, r.err)
		}
		a.segments.answeredAfter(a.now()-began, r.ids)
		return appendSegments(nil, r.ids), nil
	case <-ctx.Done():
		a.alloc.Withdraw(tag, call) // the IDs of a reply that comes all the same are burnt
		return nil, context.Cause(ctx)
	}
}

// Snowflake returns snowflake IDs, as Segment returns those of tags.
func (a *Answerer) Snowflake(count []byte, gen *snowflake.Generator) (reply []byte, err error) {
	n, err := messages.DecodeCount(count, a.cfg.MaxBatch)
	if err != nil {
		return nil, a.snowflakes.direct.refused(err)
	}
	var room [1]snowflake.Range
	ids, err := gen.NextN(room[:0], n)
	if err != nil {
		return nil, a.snowflakes.direct.refused(err)
	}
	a.snowflakes.direct.answered(n)
	return appendSnowflakes(make([]byte, 0, 2*maxDigits), ids), nil
}

// RefuseSegment counts a request that the process does not let in, as one of Segment,
// and returns the error reply for the reason.
func (a *Answerer) RefuseSegment(reason error) *messages.Error {
	return a.segments.direct.refused(reason)
}

// RefuseSnowflake is RefuseSegment for a request of Snowflake.
func (a *Answerer) RefuseSnowflake(reason error) *messages.Error {
	return a.snowflakes.direct.refused(reason)
}

// directCall is a parked request of Segment. It has room for the one reply, so the reply
// to a caller that has gone blocks nobody.
type directCall chan directReply

type directReply struct {
	ids []store.Segment
	err error
}

// Reply hands the reply to the caller. It may be called from any goroutine.
func (c directCall) Reply(ids []store.Segment, err error) { c <- directReply{ids, err} }
