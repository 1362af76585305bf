package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
)

// Direct answers requests that come to this process by another way than NATS, such as HTTP, as it answers
// those that do: from the same memory, behind the same gate, with the same limits and figures. It may
// be used from many goroutines, and works for as long as its process does. Memory lasts while NATS is
// away, and so do its answers.
type Direct struct {
	wait     time.Duration
	requests frame // of tags
	times    frame // of snowflake IDs
	segments
	snowflakes *snowflakes
	group      *membership
	inbox      *directInbox
}

// ErrNotAnswering is the error of a process whose role answers no requests.
var ErrNotAnswering = errors.New("the process answers no requests")

// Direct returns the process's own way to its IDs. The process must have started, and be of a role that
// answers. It may be called once. The error says that the server does not let it receive the answers of
// owners of strict tags.
func (w *Process) Direct() (*Direct, error) {
	for _, h := range w.halves {
		if a, ok := h.(*answering); ok {
			return a.openDirect()
		}
	}
	return nil, ErrNotAnswering
}

func (a *answering) openDirect() (*Direct, error) {
	d := a.newDirect()
	if err := d.inbox.open(a.cfg.Requests); err != nil {
		return nil, fmt.Errorf("subscribe to answers of owners of strict tags: %w", err)
	}
	return d, nil
}

func (a *answering) newDirect() *Direct {
	never := new(waitingLine) // they do not come on a connection to NATS
	return &Direct{
		wait:       a.cfg.Wait,
		requests:   newFrame(a.cfg, never, &a.figures),
		times:      newFrame(a.cfg, never, &a.snowflakes.figures),
		segments:   segments{a.supply.alloc, a.strict},
		snowflakes: a.snowflakes,
		group:      a.group,
		inbox:      a.inbox,
	}
}

// answerSlack is how much longer than Config.Wait a request may take that was passed on: for the way
// there and back. Whoever has it says by then what became of it.
const answerSlack = 500 * time.Millisecond

// errSilentOwner is the answer to a request of which nothing was heard.
var errSilentOwner = errors.New("the owner of this strictly ordered tag, to which the request was passed on, has not answered in time")

// Segment returns IDs of a tag: what a reply by NATS has in its body, see package messages. Count is
// what a request has there: empty for one ID, or an ASCII decimal up to Config.MaxBatch. Kept says that
// the IDs are kept for later, which those of a strict tag must not.
//
// It takes Config.Wait at most, and half a second more for a strict tag of another owner. When ctx
// ends, the request is withdrawn, and the error is that of ctx. All others are of type [*messages.Error].
func (d *Direct) Segment(ctx context.Context, tag string, count []byte, kept bool) (reply []byte, err error) {
	call := &directCall{inbox: d.inbox}
	r, n, ok := d.enter(&d.requests, call, count)
	if !ok {
		return call.result()
	}
	if ids, hit := d.take(tag, n, kept); hit {
		r.answer(messages.AppendRange(make([]byte, 0, 2*maxDigits), wireRange(ids)), n)
		return call.result()
	}
	call.n, call.done = n, make(chan struct{})
	d.answerLater(r, requester{direct: call}, tag, n, kept)
	d.await(ctx, call, tag, r)
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

// await returns when the request has its result.
func (d *Direct) await(ctx context.Context, call *directCall, tag string, r request) {
	defer d.inbox.remove(call)
	timeout := time.NewTimer(d.wait + answerSlack)
	defer timeout.Stop()
	select {
	case <-call.done:
		return
	case <-ctx.Done():
		call.settle(nil, context.Cause(ctx))
	case <-timeout.C:
		r.fail(errSilentOwner)
	}
	<-call.done // somebody else may have been faster, and not be ready yet
	d.alloc.Withdraw(tag)
}
