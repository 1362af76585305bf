package messages

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Client asks for IDs. It holds nothing but the connection, so it is cheap, and
// safe for concurrent use.
type Client struct {
	nc     *nats.Conn
	prefix Prefix
}

// NewClient returns a client that asks the installation with that prefix. The
// connection stays the caller's.
func NewClient(nc *nats.Conn, prefix Prefix) *Client {
	return &Client{nc: nc, prefix: prefix}
}

// Next returns one ID of the tag. ctx ought to have a deadline: that a request or its
// reply was lost is not noticed otherwise.
//
// Errors: [ErrTag], those of the codes at [Code], [ErrReply], and what NATS
// says when nobody answers (nats.ErrNoResponders) or ctx ends.
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
	reply, err := c.nc.RequestWithContext(ctx, subject, EncodeCount(n))
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", subject, err)
	}
	return DecodeReply(reply, n)
}
