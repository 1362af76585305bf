package messages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/inbox"
	"github.com/idworker/idworker/internal/rights"
)

const (
	// firstTryTimeout is many times the latency of a reply from a buffer, and
	// little compared with the delay that a caller tolerates.
	firstTryTimeout = 50 * time.Millisecond

	// The pause before each further try is twice the previous, within these
	// bounds.
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second

	// longestSilence bounds the pause while no try is answered. A frozen worker
	// still receives its share of the requests: of two workers, half of them. A
	// call of 5 s tries at least 23 times, so one in eight million fails. A
	// refusal shows that workers are busy, so pauses grow further.
	longestSilence = 250 * time.Millisecond

	// answersAtOnce is the number of replies that can queue in a call's inbox:
	// more than the requests that it sends while it handles a reply.
	answersAtOnce = 16
)

// call is a call of a [Client]: a request, repeated until it is answered.
//
// One inbox receives the replies to all tries for the duration of the call. So a
// retry does not give up a request that a worker has parked.
type call struct {
	*Client
	subject string
	n       int64
	trace   string       // of all tries; may be empty
	hasty   bool         // a transient error ends the call, silence does not
	before  error        // the connection's last error when the call began
	box     *inbox.Inbox // nil before the first try
	tries   atomic.Int64
	wait    time.Duration // before the next try
	reason  error         // the latest transient error
}

// newCall returns a call that begins now.
func newCall(client *Client, subject string, n int64, trace string) *call {
	return &call{Client: client, subject: subject, n: n, trace: trace, before: client.nc.LastError()}
}

// run tries until there is a reply, an error that is not transient, or ctx
// ends.
func (c *call) run(ctx context.Context) ([]Range, error) {
	defer c.end()
	ranges, err := c.tryOnce(ctx)
	if c.isOver(err) {
		return ranges, err
	}
	return c.tryAgain(ctx)
}

// isOver reports whether a try with that error was the last.
func (c *call) isOver(err error) bool {
	return !isTransient(err) || c.hasty && !errors.Is(err, nats.ErrTimeout)
}

// end closes the inbox. The IDs of later replies are a gap.
func (c *call) end() {
	if c.box != nil {
		c.box.Unsubscribe()
	}
}

// tryOnce makes the first try, which ends nearly every call.
func (c *call) tryOnce(ctx context.Context) (ranges []Range, err error) {
	if err := ctx.Err(); err != nil {
		if c.reason != nil { // it was part of a batch
			return nil, timeoutError(ctx, c.subject, c.reason, c.tries.Load())
		}
		return nil, fmt.Errorf("request %s: %w", c.subject, err)
	}
	c.wait = jitter(shortestPause)
	if err = c.send(); err == nil {
		ranges, err = c.awaitAnswer(ctx, firstTryTimeout, true)
	}
	if errors.Is(err, nats.ErrTimeout) {
		c.wait = 0 // it was spent waiting for the reply
		c.recordTransient(nats.ErrTimeout)
	}
	return ranges, c.addSubject(err)
}

// tryAgain makes all further tries.
func (c *call) tryAgain(ctx context.Context) ([]Range, error) {
	for pause := shortestPause; ; {
		ranges, err := c.awaitAnswer(ctx, c.wait, c.hasty)
		if c.isOver(err) {
			return ranges, c.addSubject(err)
		}
		if err := c.permissionError(); err != nil {
			return nil, c.addSubject(err)
		}
		if ctx.Err() != nil {
			return nil, timeoutError(ctx, c.subject, c.reason, c.tries.Load())
		}
		c.wait = jitter(pause)
		if errors.Is(err, nats.ErrTimeout) {
			c.wait = jitter(min(pause, longestSilence))
			c.renewInbox()
		}
		switch err := c.send(); {
		case err == nil:
			pause = min(2*pause, longestPause)
		case c.isOver(err):
			return nil, c.addSubject(err)
		}
	}
}

// send sends the request once more.
func (c *call) send() error {
	err := c.checkConnected()
	if err == nil {
		err = c.publish()
	}
	if isTransient(err) {
		c.recordTransient(err)
	}
	return err
}

func (c *call) publish() (err error) {
	if c.box == nil {
		if c.box, err = inbox.Open(c.nc, answersAtOnce); err != nil {
			return err
		}
	}
	c.tries.Add(1)
	return c.nc.PublishMsg(&nats.Msg{Subject: c.subject, Reply: c.box.Subject, Header: c.requestHeader(), Data: EncodeCount(c.n)})
}

// awaitAnswer returns the first good reply to any of the tries that arrives
// within that time, or a final error; else the last transient error of that
// time, which is [nats.ErrTimeout] if it passed in silence. Unless hasty, a
// transient error does not end the wait: another worker may have parked an
// earlier try.
func (c *call) awaitAnswer(ctx context.Context, within time.Duration, hasty bool) ([]Range, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	last := nats.ErrTimeout
	for {
		ranges, err := c.nextAnswer(ctx, timer.C)
		switch {
		case errors.Is(err, nats.ErrTimeout), ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil, last
		case !isTransient(err):
			return ranges, err
		}
		c.recordTransient(err)
		if hasty {
			return nil, err
		}
		last = err
	}
}

// nextAnswer returns the next reply. The error is [nats.ErrTimeout] after the
// end of the wait.
func (c *call) nextAnswer(ctx context.Context, end <-chan time.Time) ([]Range, error) {
	if c.box == nil { // nothing was sent
		select {
		case <-end:
		case <-ctx.Done():
		}
		return nil, nats.ErrTimeout
	}
	msg, err := c.box.NextUntil(ctx, end)
	switch {
	case err == nil:
		return DecodeReply(msg, c.n)
	case !errors.Is(err, nats.ErrBadSubscription):
		return nil, err
	}
	// The subscription has ended, since the connection ends.
	if c.nc.IsClosed() {
		return nil, nats.ErrConnectionClosed
	}
	return nil, nats.ErrConnectionDraining
}

// checkConnected returns an error unless a request can be sent now. While the
// connection is lost none is sent: its reply would come too late, once the
// connection is back.
func (c *call) checkConnected() error {
	switch c.nc.Status() {
	case nats.CONNECTED:
		return nil
	case nats.CLOSED:
		return nats.ErrConnectionClosed
	case nats.DRAINING_SUBS, nats.DRAINING_PUBS:
		return nats.ErrConnectionDraining
	}
	return nats.ErrDisconnected
}

// renewInbox makes the next try use another inbox, if the server may have
// refused this one.
func (c *call) renewInbox() {
	if c.box != nil && c.box.Retire() {
		c.box.Unsubscribe()
		c.box = nil
	}
}

// permissionError returns the server's refusal of this call's requests or of
// its inbox, if there was a refusal since it began. It arrives not as a reply,
// but as the connection's last error.
func (c *call) permissionError() error {
	err := c.nc.LastError()
	v, ok := rights.ViolationOf(err)
	switch {
	case !ok, errors.Is(err, c.before):
		return nil
	case v.Subscribe && c.box != nil && v.Subject == c.box.Pattern:
		err = fmt.Errorf("%w: a user may subscribe below its own inbox prefix only, which nats.CustomInboxPrefix sets", err)
		c.box.Drop(err)
		return err
	case !v.Subscribe && v.Subject == c.subject:
		return err
	}
	return nil
}

// noWorkerError is a [nats.ErrNoResponders] with a text for callers, who need not
// know NATS.
type noWorkerError struct{}

func (noWorkerError) Error() string { return "no worker answered" }

// Unwrap returns [nats.ErrNoResponders].
func (noWorkerError) Unwrap() error { return nats.ErrNoResponders }

// recordTransient keeps a transient error, to be returned if ctx ends.
func (c *call) recordTransient(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		err = noWorkerError{}
	}
	c.reason = err
	if c.onTransient != nil {
		c.onTransient(err)
	}
}

// timeoutError returns the error of a call whose ctx has ended. The cause comes
// first, for people who read only the beginning.
func timeoutError(ctx context.Context, subject string, reason error, tries int64) error {
	return fmt.Errorf("request %s: %w (%w after %d tries)", subject, reason, ctx.Err(), tries)
}

// addSubject adds the subject to a final error. timeoutError adds it to
// transient errors.
func (c *call) addSubject(err error) error {
	if err == nil || isTransient(err) {
		return err
	}
	return fmt.Errorf("request %s: %w", c.subject, err)
}

// jitter returns a random half to all of the pause, so that callers who failed
// together do not retry together.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2) }

// transients are the errors that a retry may cure.
var transients = []error{
	ErrBusy, ErrUnavailable,
	nats.ErrNoResponders, nats.ErrTimeout,
	nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
}

func isTransient(err error) bool {
	if err == nil { // nearly always; the rest allocates
		return false
	}
	for _, t := range transients {
		if errors.Is(err, t) {
			return true
		}
	}
	var network *net.OpError // the connection broke while a request was written
	return errors.As(err, &network)
}
