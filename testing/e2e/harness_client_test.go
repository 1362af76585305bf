package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// connect returns a connection that is closed when the test ends.
func connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, append([]nats.Option{nats.Name(t.Name())}, opts...)...)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// requester sends one request, and reports what became of it. The Go client would try
// again, and so hide what these tests are about.
type requester struct{ conn *nats.Conn }

func (r requester) Next(ctx context.Context, tag string) (int64, error) {
	ranges, err := r.NextN(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

func (r requester) NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
	return r.ask(ctx, messages.DefaultPrefix.Segment(tag), n)
}

func (r requester) SnowflakeN(ctx context.Context, n int64) ([]messages.Range, error) {
	return r.ask(ctx, messages.DefaultPrefix.Snowflake(), n)
}

func (r requester) ask(ctx context.Context, subject string, n int64) ([]messages.Range, error) {
	reply, err := r.conn.RequestWithContext(ctx, subject, messages.EncodeCount(n))
	if err != nil {
		return nil, err
	}
	return messages.DecodeReply(reply, n)
}

// dial returns a requester with a connection of its own.
func dial(t testing.TB, url string) requester {
	t.Helper()
	return requester{connect(t, url)}
}

func isNobody(err error) bool { return errors.Is(err, nats.ErrNoResponders) }

// flush returns when the server has handled all that was sent before.
func flush(t testing.TB, conn *nats.Conn) {
	t.Helper()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// rangesOf decodes a reply without knowing how many IDs were asked for.
func rangesOf(data []byte) ([]messages.Range, error) {
	var n int64
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		var first, last int64
		if k, _ := fmt.Sscanf(string(line), "%d-%d", &first, &last); k == 2 {
			n += last - first
		}
		n++
	}
	return messages.DecodeRanges(data, n)
}
