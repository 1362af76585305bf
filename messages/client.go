package messages

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Client requests IDs, and retries while no worker answers: a worker that is
// paused, dying, restarting or missing delays calls, but they do not fail
// before their context ends.
//
// A Client is cheap, and safe for concurrent use. All clients of a connection
// share one subscription, which ends with the connection. IDs whose reply comes
// too late for a call are lost: a gap, never a duplicate.
//
// Concurrent calls of [Client.Next] for a tag travel together: a call sends its
// request at once, and those that come before its reply join into one request,
// for up to 256 IDs. The same holds for [Client.Snowflake]. Calls that need a
// request of their own use NextN(ctx, tag, 1).
type Client struct {
	// Traceparent returns the value of [TraceparentHeader] for the requests of a
	// call with that context: at most 256 visible ASCII bytes, otherwise they have
	// none. Each call runs it once, as it begins, in its own goroutine. Calls that
	// travel together send that of the first. A prefetcher's requests have none. It
	// may be nil; set it before the first call.
	Traceparent func(context.Context) string

	// Log gets a line when requests begin to fail, as no worker serves them, and
	// when they succeed again; and when the connection is lost and restored. It is
	// [slog.Default] if nil; for silence, use slog.New(slog.DiscardHandler). Set it
	// before the first call.
	Log *slog.Logger

	nc     *nats.Conn
	prefix Prefix
	bad    error // why the prefix is bad

	coalescer coalescer
	outages   *outages
	watching  atomic.Bool

	// header is sent with each request. It may be nil.
	header nats.Header

	// onTransient is called with each error that makes a call retry. It may be
	// nil.
	onTransient func(error)
}

// NewClient returns a client of the installation with that prefix. The caller
// keeps ownership of the connection. If the prefix does not pass
// [Prefix.Check], each call fails at once with that error.
func NewClient(nc *nats.Conn, prefix Prefix) *Client {
	return &Client{nc: nc, prefix: prefix, bad: prefix.Check(), coalescer: coalescer{limit: maxJoined}, outages: new(outages)}
}

// Next returns one ID of the tag. It retries until there is a reply, so ctx
// should have a deadline; without a deadline the call lasts until ctx is
// cancelled or the connection is closed.
//
// It retries, after pauses that grow from 50 ms to 1 s, when no worker is
// subscribed, when the connection is lost, and after [ErrBusy] and
// [ErrUnavailable]. While no worker answers, pauses grow to 250 ms: a frozen
// worker keeps receiving requests until the server drops it. If ctx ends first,
// the error matches both ctx.Err() and the latest of these: nats.ErrTimeout,
// nats.ErrNoResponders, nats.ErrDisconnected, ErrBusy or ErrUnavailable.
//
// A call can outlast ctx while the connection is lost: nats.go holds its lock
// while it dials a server that does not answer, 2 s or nats.Timeout, and a call
// may wait for that more than once.
//
// These errors are returned at once: [ErrPrefix], [ErrTag] and [ErrCount];
// [ErrMalformed], [ErrNoTag], [ErrExhausted] and any other error reply;
// [ErrReply]; and the errors of NATS that a retry cannot cure, such as
// nats.ErrConnectionClosed, nats.ErrConnectionDraining or
// nats.ErrPermissionViolation. With an error there is never an ID to use.
func (c *Client) Next(ctx context.Context, tag string) (int64, error) {
	if err := CheckTag(tag); err != nil {
		return 0, err
	}
	return c.next(ctx, tag)
}

// NextN returns n IDs of the tag as ascending ranges. n is at least 1 and at
// most the batch limit of the workers. Errors as for Next.
func (c *Client) NextN(ctx context.Context, tag string, n int64) ([]Range, error) {
	if err := CheckTag(tag); err != nil {
		return nil, err
	}
	return c.request(ctx, tag, n)
}

// Snowflake returns one snowflake ID. Errors as for Next, except ErrTag and
// ErrNoTag.
func (c *Client) Snowflake(ctx context.Context) (int64, error) {
	return c.next(ctx, "")
}

// SnowflakeN returns n snowflake IDs as ascending ranges. n is at least 1 and
// at most the batch limit of the workers. Errors as for Snowflake.
func (c *Client) SnowflakeN(ctx context.Context, n int64) ([]Range, error) {
	return c.request(ctx, "", n)
}

// request requests n IDs of a tag, or n snowflake IDs if the tag is empty.
func (c *Client) request(ctx context.Context, tag string, n int64) ([]Range, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	if n < 1 {
		return nil, fmt.Errorf("%w: %d, allowed is 1 or more", ErrCount, n)
	}
	c.watch()
	ranges, err := newCall(c, c.subject(tag), n, c.traceOf(ctx)).run(ctx)
	c.note(tag, err)
	return ranges, err
}
