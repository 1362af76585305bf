package e2e

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker/history"
)

// strictTag is the tag of these callers.
const strictTag = "invoice"

// strictCallers request IDs of a strict tag until stopped. All their answers
// are recorded, also those that come after a caller has sent its request again.
type strictCallers struct {
	t        *testing.T
	answered []atomic.Int64 // by caller
	began    time.Time
	stop     atomic.Bool
	wg       sync.WaitGroup

	mu      sync.Mutex
	history []history.Call
}

func startStrictCallers(t *testing.T, url string, n int, opts ...nats.Option) *strictCallers {
	t.Helper()
	c := &strictCallers{t: t, began: time.Now(), answered: make([]atomic.Int64, n)}
	for i := range c.answered {
		conn, random := connect(t, url, opts...), rand.New(rand.NewPCG(uint64(i), 4))
		c.wg.Go(func() {
			for !c.stop.Load() {
				c.request(conn, i, count(random, 100))
				time.Sleep(4 * pace) // each request is a write of the register
			}
		})
	}
	t.Cleanup(c.finish)
	return c
}

// request sends a request, and returns once it is answered, or after a second.
func (c *strictCallers) request(conn *nats.Conn, caller int, n int64) {
	done := make(chan struct{})
	call := history.Call{Kind: history.Strict, Tag: strictTag, Count: n, Sent: time.Since(c.began)}
	sub, err := conn.Subscribe(conn.NewInbox(), func(msg *nats.Msg) {
		call.Received = time.Since(c.began)
		// AutoUnsubscribe fails for a reply from another account: the server does
		// not count it, and limits a caller's subscriptions.
		_ = msg.Sub.Unsubscribe()
		c.record(caller, call, msg)
		close(done)
	})
	if err == nil {
		err = conn.PublishRequest(messages.DefaultPrefix.Segment(strictTag), sub.Subject, messages.EncodeCount(n))
	}
	if err != nil {
		c.t.Error(err)
		c.stop.Store(true)
		return
	}
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func (c *strictCallers) record(caller int, call history.Call, msg *nats.Msg) {
	ranges, err := messages.DecodeReply(msg, call.Count)
	switch {
	case err == nil:
		call.Ranges = ranges
		c.mu.Lock()
		c.history = append(c.history, call)
		c.mu.Unlock()
		c.answered[caller].Add(1)
	case !isAskAgain(err) && !errors.Is(err, nats.ErrNoResponders):
		c.t.Errorf("a request for %d IDs: %v", call.Count, err)
	}
}

// more returns when each caller has been answered that many more times.
func (c *strictCallers) more(n int64) {
	c.t.Helper()
	for i := range c.answered {
		target := c.answered[i].Load() + n
		natstest.Eventually(c.t, "a caller is answered again", func() bool { return c.answered[i].Load() >= target || c.t.Failed() })
	}
}

func (c *strictCallers) finish() {
	c.stop.Store(true)
	c.wg.Wait()
}

// check judges the whole history.
func (c *strictCallers) check() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := order.Check(c.history); err != nil {
		c.t.Error(err)
	}
	c.t.Logf("%d calls", len(c.history))
}

// TestStrictOrder: of three workers and two loaders, one is killed while another
// is paused. The IDs of a strict tag stay in order, none comes twice, and after
// each fault every caller is answered again.
func TestStrictOrder(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t).URL()
	roles := []string{"worker", "loader", "worker", "loader", "worker"}
	start := func(role string) *process { return startWorker(t, url, "--role", role) }
	var all []*process
	for _, role := range roles {
		all = append(all, start(role))
	}
	must(t, "tag", "create", "--server", url, strictTag, "--order", "strict")
	c := startStrictCallers(t, url, 6)
	c.more(50)
	for range tier.Pick(1, 8) {
		for _, fault := range []struct{ killed, paused int }{{0, 1}, {1, 2}, {4, 0}} {
			all[fault.paused].pause()
			c.more(1)
			all[fault.killed].kill()
			c.more(1)
			all[fault.paused].resume() // and answers late
			all[fault.killed] = start(roles[fault.killed])
			c.more(50)
		}
	}
	c.finish()
	for _, p := range all {
		p.stop(syscall.SIGTERM)
	}
	c.check()
}
