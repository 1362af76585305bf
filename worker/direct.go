package worker

import (
	"context"
	"errors"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// Direct answers requests that come to this process by another way than NATS, such as HTTP, as it answers
// those that do: from the same memory, behind the same gate, with the same limits and figures. It may
// be used from many goroutines, and works for as long as its process does. Memory lasts while NATS is
// away, and so do its answers.
type Direct struct {
	requests   frame // of tags
	times      frame // of snowflake IDs
	alloc      *allocator.Allocator
	snowflakes *snowflakes
	group      *membership
}

// ErrNotAnswering is the error of a process whose role answers no requests.
var ErrNotAnswering = errors.New("the process answers no requests")

// Direct returns the process's own way to its IDs. The process must have started, and be of
// a role that answers.
func (w *Process) Direct() (*Direct, error) {
	for _, h := range w.halves {
		if a, ok := h.(*answering); ok {
			return a.newDirect(), nil
		}
	}
	return nil, ErrNotAnswering
}

func (a *answering) newDirect() *Direct {
	never := new(waitingLine) // they do not come on a connection to NATS
	return &Direct{
		requests:   newFrame(a.cfg, never, &a.figures),
		times:      newFrame(a.cfg, never, &a.snowflakes.figures),
		alloc:      a.supply.alloc,
		snowflakes: a.snowflakes,
		group:      a.group,
	}
}

// Segment returns IDs of a tag: what a reply by NATS has in its body, see package messages. Count is
// what a request has there: empty for one ID, or an ASCII decimal up to Config.MaxBatch. Kept says that
// the IDs are kept for later, which those of a strict tag must not.
//
// It takes Config.Wait at most. When ctx ends, the request is withdrawn, and the error is that of ctx. All
// others are of type [*messages.Error].
func (d *Direct) Segment(ctx context.Context, tag string, count []byte, kept bool) (reply []byte, err error) {
	call := new(directCall)
	r, n, ok := d.enter(&d.requests, call, count)
	if !ok {
		return call.result()
	}
	if ids, hit := d.alloc.Take(tag, n); hit {
		r.answer(messages.AppendRange(make([]byte, 0, 2*maxDigits), wireRange(ids)), n)
		return call.result()
	}
	call.done = make(chan struct{})
	r.answerOrPark(d.alloc, requester{direct: call}, tag, n, kept)
	select {
	case <-call.done:
	case <-ctx.Done():
		call.settle(nil, context.Cause(ctx))
		<-call.done // somebody else may have been faster, and not be ready yet
		d.alloc.Withdraw(tag)
	}
	return call.result()
}

// maxDigits is more than an ID and what separates it from the next can have.
const maxDigits = 20

// Snowflake returns snowflake IDs, as Segment returns those of tags.
func (d *Direct) Snowflake(_ context.Context, count []byte) (reply []byte, err error) {
	call := new(directCall)
	r, n, ok := d.enter(&d.times, call, count)
	if !ok {
		return call.result()
	}
	var room [1]snowflake.Range
	ids, err := d.snowflakes.next(room[:0], n)
	if err != nil {
		r.fail(err)
		return call.result()
	}
	r.answer(appendSnowflakes(make([]byte, 0, 2*maxDigits), ids), n)
	return call.result()
}

// enter returns a request that is let in, and how many IDs it wants. If ok is false, it has been dealt
// with.
func (d *Direct) enter(f *frame, call *directCall, count []byte) (r request, n int64, ok bool) {
	r = request{frame: f, replier: call, began: elapsed(), exact: true}
	if err := d.group.refuses(); err != nil {
		r.fail(err)
		return r, 0, false
	}
	n, ok = r.count(count)
	return r, n, ok
}
