package messages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
	// more than the requests that it can send while it handles a reply.
	answersAtOnce = 64
)

// call is a call of a [Client]: a request, repeated until it is answered.
//
// Nearly every call ends with its first try, which uses the inbox shared by all
// requests of the connection. The other tries share the call's own inbox, which
// receives the replies to all of them for the duration of the call. So a retry
// does not give up a request that a worker has parked.
type call struct {
	*Client
	subject string
	n       int64
	before  error // the connection's last error when the call began
	tries   int
	refused bool  // a transient reply has arrived since the latest try
	reason  error // the latest transient error
}

func newCall(client *Client, subject string, n int64) *call {
	return &call{Client: client, subject: subject, n: n, before: client.nc.LastError()}
}

// run tries until there is a reply, an error that is not transient, or ctx
// ends.
func (c *call) run(ctx context.Context) ([]Range, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("request %s: %w", c.subject, err)
	}
	ranges, err := c.tryOnce(ctx)
	if !isTransient(err) {
		return ranges, err
	}
	c.recordTransient(err)
	if ctx.Err() != nil {
		return nil, c.timeoutError(ctx)
	}
	return c.tryAgain(ctx, errors.Is(err, nats.ErrTimeout))
}

// tryOnce makes the first try.
func (c *call) tryOnce(ctx context.Context) ([]Range, error) {
	if err := c.checkConnected(); err != nil {
		return nil, c.addSubject(err)
	}
	ctx, cancel := context.WithTimeout(ctx, firstTryTimeout)
	defer cancel()
	c.tries++
	reply, err := c.nc.RequestMsgWithContext(ctx, c.message(""))
	switch {
	case err == nil:
		return DecodeReply(reply, c.n)
	case ctx.Err() != nil:
		err = nats.ErrTimeout
	}
	return nil, c.addSubject(err)
}

// tryAgain makes all further tries. If waited, the time so far was spent
// waiting for a reply, and it starts without a pause.
func (c *call) tryAgain(ctx context.Context, waited bool) ([]Range, error) {
	box, err := c.retries.Open(c.nc, answersAtOnce)
	if err != nil {
		return nil, c.addSubject(err)
	}
	defer box.Unsubscribe()

	pause := shortestPause
	wait := jitter(pause)
	if waited {
		wait = 0
	}
	for {
		ranges, err := c.awaitAnswer(ctx, box, wait)
		if !isTransient(err) {
			return ranges, err
		}
		if err := c.permissionError(box); err != nil {
			return nil, c.addSubject(err)
		}
		if ctx.Err() != nil {
			return nil, c.timeoutError(ctx)
		}
		wait = jitter(pause)
		if !c.refused {
			wait = jitter(min(pause, longestSilence))
		}
		switch err := c.sendTry(box.Subject); {
		case err == nil:
			pause = min(2*pause, longestPause)
		case isTransient(err):
			c.recordTransient(err)
		default:
			return nil, c.addSubject(err)
		}
	}
}

// sendTry sends another request, to be answered to the call's own inbox.
func (c *call) sendTry(reply string) error {
	if err := c.checkConnected(); err != nil {
		return err
	}
	c.tries++
	return c.nc.PublishMsg(c.message(reply))
}

// message returns the request.
func (c *call) message(reply string) *nats.Msg {
	return &nats.Msg{Subject: c.subject, Reply: reply, Header: c.header, Data: EncodeCount(c.n)}
}

// awaitAnswer returns the first good reply to any of the tries that arrives
// within that time. A transient error does not end the wait: another worker may
// have parked an earlier try.
func (c *call) awaitAnswer(ctx context.Context, box *inbox.Inbox, within time.Duration) ([]Range, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c.refused = false
	for {
		msg, err := box.Next(ctx)
		switch {
		case err == nil:
			var ranges []Range
			if ranges, err = DecodeReply(msg, c.n); !isTransient(err) {
				return ranges, err
			}
		case ctx.Err() != nil:
			return nil, nats.ErrTimeout
		case errors.Is(err, nats.ErrBadSubscription) && c.nc.IsClosed():
			return nil, c.addSubject(nats.ErrConnectionClosed)
		// Only draining ends this subscription.
		case errors.Is(err, nats.ErrBadSubscription):
			return nil, c.addSubject(nats.ErrConnectionDraining)
		case !isTransient(err): // nats.ErrNoResponders is
			return nil, c.addSubject(err)
		}
		c.refused = true
		c.recordTransient(err)
	}
}

// checkConnected returns an error unless a request can be sent now. While the
// connection is lost none is sent: its reply would come too late, once the
// connection is back.
func (c *call) checkConnected() error {
	switch {
	case c.nc.IsConnected():
		return nil
	case c.nc.IsClosed():
		return nats.ErrConnectionClosed
	}
	return nats.ErrDisconnected
}

// permissionError returns the server's refusal of this call's requests or of
// its inbox, if there was a refusal. It arrives not as a reply, but as the
// connection's last error. An older refusal counts only if it is the inbox's,
// which other calls may have opened.
func (c *call) permissionError(box *inbox.Inbox) error {
	err := c.nc.LastError()
	v, ok := rights.ViolationOf(err)
	if ok && (v.Subscribe && v.Subject == box.Pattern || !v.Subscribe && v.Subject == c.subject && !errors.Is(err, c.before)) {
		return err
	}
	return nil
}

// recordTransient keeps a transient error, to be returned if ctx ends.
func (c *call) recordTransient(err error) {
	c.reason = err
	if c.onTransient != nil {
		c.onTransient(err)
	}
}

// timeoutError returns the call's error when ctx has ended. The cause comes
// first, for people who read only the beginning.
func (c *call) timeoutError(ctx context.Context) error {
	return fmt.Errorf("request %s: %w (%w after %d tries)", c.subject, c.reason, ctx.Err(), c.tries)
}

// addSubject adds the subject to an error of NATS. It leaves transient errors
// unchanged; timeoutError adds the subject to those.
func (c *call) addSubject(err error) error {
	if isTransient(err) {
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
	for _, t := range transients {
		if errors.Is(err, t) {
			return true
		}
	}
	var network *net.OpError // the connection broke while a request was written
	return errors.As(err, &network)
}
