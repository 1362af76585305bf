package e2e

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// connect returns a connection that is closed when the test ends.
func connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, append([]nats.Option{nats.Name(t.Name()), nats.Timeout(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// requester sends a single request, and reports its outcome. The Go client
// would retry, and so hide the subject of these tests.
type requester struct {
	conn  *nats.Conn
	after time.Duration // retries after that time without an answer; 0: askAgain
}

// dial returns a requester with a connection of its own.
func dial(t testing.TB, url string, opts ...nats.Option) requester {
	t.Helper()
	return requester{conn: connect(t, url, opts...)}
}

func (r requester) NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error) {
	reply, err := r.conn.RequestWithContext(ctx, messages.DefaultPrefix.Segment(tag), messages.EncodeCount(n))
	if err != nil {
		return nil, err
	}
	return messages.DecodeReply(reply, n)
}

// askAgain is a caller's timeout before it retries.
const askAgain = 5 * time.Second

// once sends a single request.
func (r requester) once(t testing.TB, tag string, n int64) ([]messages.Range, error) {
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(r.after, askAgain))
	defer cancel()
	return r.NextN(ctx, tag, n)
}

// get retries until it has so many IDs, like a caller whose machine may be
// busy. A new tag is never unknown.
func (r requester) get(t testing.TB, tag string, n int64) (ranges []messages.Range) {
	t.Helper()
	natstest.Eventually(t, "IDs of tag "+tag, func() bool {
		var err error
		if ranges, err = r.once(t, tag, n); err != nil && !isAskAgain(err) && !lost(err) {
			t.Fatalf("%d IDs of %s: %v", n, tag, err)
		}
		return err == nil
	})
	return ranges
}

// next is get of a single ID.
func (r requester) next(t testing.TB, tag string) int64 {
	t.Helper()
	return r.get(t, tag, 1)[0].First
}

// lost reports whether an error is that of a caller whose worker is gone.
func lost(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
}

// flush returns when the server has handled all that was sent before.
func flush(t testing.TB, conn *nats.Conn) {
	t.Helper()
	if err := conn.FlushTimeout(natstest.Patience); err != nil {
		t.Fatal(err)
	}
}
