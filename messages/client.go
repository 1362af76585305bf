package messages

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Client asks for IDs, and asks again while nobody can answer: if a worker is paused,
// dying or restarting, or if there is none, calls are delayed, but do not fail before
// their context ends.
//
// A Client holds nothing but the connection, so it is cheap, and it is safe for
// concurrent use. IDs whose answer comes too late for a call are lost: a gap, never a
// duplicate.
type Client struct {
	nc     *nats.Conn
	prefix Prefix
	bad    error // what is wrong with the prefix

	// header goes with each request. It may be nil.
	header nats.Header

	// onTransient is told each error that makes a call ask again. It may be nil.
	onTransient func(error)
}

// NewClient returns a client of the installation with that prefix. The connection stays
// the caller's. With a prefix that does not pass [Prefix.Check], each call fails at once with
// that error.
func NewClient(nc *nats.Conn, prefix Prefix) *Client {
	return &Client{nc: nc, prefix: prefix, bad: prefix.Check()}
}

// Next returns one ID of the tag. It asks until there is an answer, so ctx should have a
// deadline; without one the call lasts until ctx is cancelled or the connection is
// closed.
//
// It asks again, after pauses that grow from 50 ms to 1 s, when nobody answers, when
// there is nobody to ask, when the connection is lost, and after [ErrBusy] and
// [ErrUnavailable]. If ctx ends first, the error matches both ctx.Err() and the latest
// of these: nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, ErrBusy or
// ErrUnavailable.
//
// A call can outlast ctx while the connection is lost: nats.go holds its lock as long as it dials a server that
// does not answer, 2 s or nats.Timeout, and a call may meet that more than once.
//
// These errors are returned at once: [ErrPrefix], [ErrTag] and [ErrCount]; [ErrMalformed],
// [ErrNoTag], [ErrExhausted] and any other error reply; [ErrReply]; and the errors of
// NATS that asking again cannot cure, such as nats.ErrConnectionClosed,
// nats.ErrConnectionDraining or nats.ErrPermissionViolation. With an error there is
// never an ID to use.
func (c *Client) Next(ctx context.Context, tag string) (int64, error) {
	ranges, err := c.NextN(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

// NextN returns n IDs of the tag as ascending ranges. n is at least 1 and at most what
// the workers allow in one batch. Errors as for Next.
func (c *Client) NextN(ctx context.Context, tag string, n int64) ([]Range, error) {
	if err := CheckTag(tag); err != nil {
		return nil, err
	}
	ranges, err := c.request(ctx, c.prefix.Segment(tag), n)
	if err != nil && errors.Is(err, ErrNoTag) {
		err = fmt.Errorf("%w: %s", err, tag)
	}
	return ranges, err
}

// Snowflake returns one snowflake ID. Errors as for Next, except ErrTag and ErrNoTag.
func (c *Client) Snowflake(ctx context.Context) (int64, error) {
	ranges, err := c.SnowflakeN(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

// SnowflakeN returns n snowflake IDs as ascending ranges. n is at least 1 and at most
// what the workers allow in one batch. Errors as for Snowflake.
func (c *Client) SnowflakeN(ctx context.Context, n int64) ([]Range, error) {
	return c.request(ctx, c.prefix.Snowflake(), n)
}

// request asks for n IDs on a subject.
func (c *Client) request(ctx context.Context, subject string, n int64) ([]Range, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	if n < 1 {
		return nil, fmt.Errorf("%w: %d, allowed is 1 or more", ErrCount, n)
	}
	return newCall(c, subject, n).run(ctx)
}
