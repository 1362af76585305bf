package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// answerWithin is far longer than any answer takes, even on a busy machine.
const answerWithin = time.Minute

// crowd is many callers, who request IDs until finish is called. No request may
// fail, and no ID may come twice.
type crowd struct {
	t        testing.TB
	stop     chan struct{}
	group    sync.WaitGroup
	requests atomic.Int64

	mu   sync.Mutex
	seen map[string]map[int64]bool // by sequence
}

func newCrowd(t testing.TB) *crowd {
	c := &crowd{t: t, stop: make(chan struct{}), seen: make(map[string]map[int64]bool)}
	t.Cleanup(c.finish)
	return c
}

// add adds a caller, who pauses after each answer, and ends at an error.
func (c *crowd) add(kind string, pause time.Duration, ask func(context.Context) (sequence string, id int64, err error)) {
	c.group.Go(func() {
		for {
			select {
			case <-c.stop:
				return
			case <-time.After(pause):
			}
			ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
			began := time.Now()
			sequence, id, err := ask(ctx)
			cancel()
			c.requests.Add(1)
			if err != nil {
				c.t.Errorf("%s: after %v: %v", kind, time.Since(began), err)
				return
			}
			c.record(sequence, id)
		}
	})
}

// addPlain adds a caller without a client, for whom "busy" is an answer, too:
// only silence and other errors are failures.
func (c *crowd) addPlain(conn *nats.Conn, pause time.Duration, tag string) {
	c.add("plain, "+tag, pause, func(ctx context.Context) (string, int64, error) {
		id, err := request(ctx, conn, tag)
		for errors.Is(err, messages.ErrBusy) {
			id, err = request(ctx, conn, tag)
		}
		return tag, id, err
	})
}

// request sends a single request.
func request(ctx context.Context, conn *nats.Conn, tag string) (int64, error) {
	reply, err := conn.RequestWithContext(ctx, messages.DefaultPrefix.Segment(tag), nil)
	if err != nil {
		return 0, err
	}
	ranges, err := messages.DecodeReply(reply, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

func (c *crowd) record(sequence string, id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[sequence] == nil {
		c.seen[sequence] = make(map[int64]bool)
	}
	if c.seen[sequence][id] {
		c.t.Errorf("%s: %d came twice", sequence, id)
	}
	c.seen[sequence][id] = true
}

// ids is how many IDs were handed out.
func (c *crowd) ids() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seen := range c.seen {
		n += len(seen)
	}
	return n
}

// finish stops the callers, and returns when the last answer has come.
func (c *crowd) finish() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.group.Wait()
}
