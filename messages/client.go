package messages

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Client asks for IDs, and asks again while nobody can answer: a worker that is
// paused, dying or restarted, or the lack of one, costs its callers time and no
// error, as long as their context lasts.
//
// It holds nothing but the connection, so it is cheap, and safe for concurrent use.
// What a call takes is lost to others if its answer comes too late: a gap, never a
// duplicate.
type Client struct {
	nc     *nats.Conn
	prefix Prefix
	noted  func(transient error) // told what makes a call ask again; may be nil
}

// NewClient returns a client that asks the installation with that prefix. The
// connection stays the caller's.
func NewClient(nc *nats.Conn, prefix Prefix) *Client {
	return &Client{nc: nc, prefix: prefix}
}

// Next returns one ID of the tag. It asks until there is an answer, so ctx should have
// a deadline; without one the call lasts until ctx is cancelled or the connection is
// closed.
//
// Asked again, after pauses that grow from 50 ms to 1 s: when nobody answers, when
// there is nobody to ask, when the connection is lost, and after [ErrBusy] and
// [ErrUnavailable]. If ctx ends first, the error matches both ctx.Err() and the latest
// of these: nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, ErrBusy or
// ErrUnavailable.
//
// Returned at once: [ErrTag] and [ErrCount]; [ErrMalformed], [ErrNoTag], [ErrExhausted]
// and any other error reply; [ErrReply]; and what NATS says when asking again is no
// use, such as nats.ErrConnectionClosed, nats.ErrConnectionDraining or
// nats.ErrPermissionViolation. With an error there is never an ID to use.
func (c *Client) Next(ctx context.Context, tag string) (int64, error) {
	ranges, err := c.NextN(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

// NextN returns n IDs of the tag, n from 1 to what the workers allow in one
// batch, as ascending ranges. Errors as for Next.
func (c *Client) NextN(ctx context.Context, tag string, n int64) ([]Range, error) {
	if err := CheckTag(tag); err != nil {
		return nil, err
	}
	return c.ask(ctx, c.prefix.Segment(tag), n)
}

// Snowflake returns one snowflake ID. Errors as for Next; there is no ErrNoTag.
func (c *Client) Snowflake(ctx context.Context) (int64, error) {
	ranges, err := c.SnowflakeN(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

// SnowflakeN returns n snowflake IDs, n from 1 to what the workers allow in one batch,
// as ascending ranges.
func (c *Client) SnowflakeN(ctx context.Context, n int64) ([]Range, error) {
	return c.ask(ctx, c.prefix.Snowflake(), n)
}

// ask requests n IDs from a subject.
func (c *Client) ask(ctx context.Context, subject string, n int64) ([]Range, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: %d, allowed is 1 or more", ErrCount, n)
	}
	return newAsking(c, subject, n).do(ctx)
}
