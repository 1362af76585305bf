package messages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// firstTry is many times what an answer from memory takes, and little beside what a
	// caller bears.
	firstTry = 50 * time.Millisecond

	// The pauses before further tries double from one to the other.
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second
)

// asking is one call of a client: a request, and more of them until one is answered.
//
// Nearly every call ends with its first try, which goes the cheap way, through the
// inbox that all requests of the connection share. The others share an inbox of the
// call's own, which takes the answers of all of them for as long as the call lasts.
// So a request that a worker has parked is not given up by asking once more.
type asking struct {
	*Client
	subject string
	n       int64
	before  error // the connection's last error when the call began
	tries   int
	reason  error // the latest transient error
}

func newAsking(c *Client, subject string, n int64) *asking {
	return &asking{Client: c, subject: subject, n: n, before: c.nc.LastError()}
}

func (a *asking) do(ctx context.Context) ([]Range, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("request %s: %w", a.subject, err)
	}
	ranges, err := a.first(ctx)
	if !isTransient(err) {
		return ranges, err
	}
	a.note(err)
	if ctx.Err() != nil {
		return nil, a.gaveUp(ctx)
	}
	return a.again(ctx, errors.Is(err, nats.ErrTimeout))
}

// first is the first try.
func (a *asking) first(ctx context.Context) ([]Range, error) {
	if err := a.connected(); err != nil {
		return nil, a.wrap(err)
	}
	ctx, cancel := context.WithTimeout(ctx, firstTry)
	defer cancel()
	a.tries++
	reply, err := a.nc.RequestWithContext(ctx, a.subject, EncodeCount(a.n))
	switch {
	case err == nil:
		return DecodeReply(reply, a.n)
	case ctx.Err() != nil:
		err = nats.ErrTimeout
	}
	return nil, a.wrap(err)
}

// again is all the other tries. The first of them needs no pause if the time was spent
// on waiting for an answer.
func (a *asking) again(ctx context.Context, waited bool) ([]Range, error) {
	inbox := a.nc.NewInbox()
	box, err := a.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, a.wrap(err)
	}
	defer func() { _ = box.Unsubscribe() }() // fails if the connection is gone

	pause := shortestPause
	wait := jitter(pause)
	if waited {
		wait = 0
	}
	for {
		ranges, err := a.listen(ctx, box, wait)
		if !isTransient(err) {
			return ranges, err
		}
		if err := a.denied(inbox); err != nil {
			return nil, a.wrap(err)
		}
		if ctx.Err() != nil {
			return nil, a.gaveUp(ctx)
		}
		wait = jitter(pause)
		switch err := a.send(inbox); {
		case err == nil:
			pause = min(2*pause, longestPause)
		case isTransient(err):
			a.note(err)
		default:
			return nil, a.wrap(err)
		}
	}
}

// send is one more try, answered to the call's own inbox.
func (a *asking) send(inbox string) error {
	if err := a.connected(); err != nil {
		return err
	}
	a.tries++
	return a.nc.PublishRequest(a.subject, inbox, EncodeCount(a.n))
}

// listen takes the first good answer to any of the tries, within that time. A transient
// error does not end it: another worker may hold an earlier try.
func (a *asking) listen(ctx context.Context, box *nats.Subscription, within time.Duration) ([]Range, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		msg, err := box.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			var ranges []Range
			if ranges, err = DecodeReply(msg, a.n); !isTransient(err) {
				return ranges, err
			}
		case ctx.Err() != nil:
			return nil, nats.ErrTimeout
		case errors.Is(err, nats.ErrBadSubscription): // it is our own: nothing else ends it
			return nil, a.wrap(nats.ErrConnectionDraining)
		case !isTransient(err): // nats.ErrNoResponders is
			return nil, a.wrap(err)
		}
		a.note(err)
	}
}

// connected says whether a request can be sent now. While the connection is lost none
// is, or it would be answered, to nobody, once the connection is back.
func (a *asking) connected() error {
	switch {
	case a.nc.IsConnected():
		return nil
	case a.nc.IsClosed():
		return nats.ErrConnectionClosed
	}
	return nats.ErrDisconnected
}

// denied is the server's refusal of this call's requests or of its inbox, if there was
// one. It does not come as an answer, but as the connection's last error.
func (a *asking) denied(inbox string) error {
	err := a.nc.LastError()
	if errors.Is(err, a.before) || !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	if text := err.Error(); strings.Contains(text, `"`+a.subject+`"`) || strings.Contains(text, inbox) {
		return err
	}
	return nil
}

// note keeps a transient error, to be shown if ctx ends.
func (a *asking) note(err error) {
	a.reason = err
	if a.noted != nil {
		a.noted(err)
	}
}

// gaveUp is the error for a ctx that has ended.
func (a *asking) gaveUp(ctx context.Context) error {
	return fmt.Errorf("request %s: %w after %d tries: %w", a.subject, ctx.Err(), a.tries, a.reason)
}

// wrap says what an error of NATS is about. Transient ones say it when ctx ends.
func (a *asking) wrap(err error) error {
	if isTransient(err) {
		return err
	}
	return fmt.Errorf("request %s: %w", a.subject, err)
}

// jitter is half to all of the pause, so that callers who failed together do not come
// back together.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2) }

// transients are the errors that asking again may cure.
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
