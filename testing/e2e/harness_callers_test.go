package e2e

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// callers ask for IDs, each one request at a time, until stopped.
type callers struct {
	t       testing.TB
	ledgers ledgers
	stop    atomic.Bool
	wg      sync.WaitGroup

	retry func(error) bool // errors after which the caller asks again
	lost  atomic.Int64     // requests that were asked again

	mu      sync.Mutex
	replies []reply
}

// load says what callers ask for.
type load struct {
	callers  int
	tags     []string
	maxBatch int64
	timeout  time.Duration
	retry    func(error) bool // nil: every error fails the test
	inbox    string           // prefix of the reply subjects, if any special one
}

// startCallers starts callers, each with a connection of its own.
func startCallers(t testing.TB, url string, l load) *callers {
	t.Helper()
	c := &callers{t: t, ledgers: newLedgers(l.tags), retry: l.retry}
	for i := range l.callers {
		var opts []nats.Option
		if l.inbox != "" {
			opts = append(opts, nats.CustomInboxPrefix(l.inbox))
		}
		client := requester{connect(t, url, opts...)}
		random := rand.New(rand.NewPCG(uint64(i), 2))
		c.wg.Go(func() { c.call(client, random, l) })
	}
	t.Cleanup(func() { c.finish() })
	return c
}

// finish stops the callers, waits for their last replies, and returns all of them.
func (c *callers) finish() []reply {
	c.stop.Store(true)
	c.wg.Wait()
	return c.replies
}

// call is one caller.
func (c *callers) call(client requester, random *rand.Rand, l load) {
	var replies []reply
	defer func() {
		c.mu.Lock()
		c.replies = append(c.replies, replies...)
		c.mu.Unlock()
	}()
	for !c.stop.Load() {
		r := reply{tag: l.tags[random.IntN(len(l.tags))], sent: time.Now()}
		n := count(random, l.maxBatch)
		ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
		var err error
		r.ranges, err = client.NextN(ctx, r.tag, n)
		cancel()
		if r.received = time.Now(); err == nil {
			c.ledgers[r.tag].add(r.ranges)
			replies = append(replies, r)
			continue
		}
		if errors.Is(err, messages.ErrBusy) || errors.Is(err, messages.ErrUnavailable) {
			continue // the machine is busy; a caller asks again
		}
		if c.retry == nil || !c.retry(err) {
			c.t.Errorf("request for %d IDs of %s failed after %v: %v", n, r.tag, r.received.Sub(r.sent), err)
			return
		}
		c.lost.Add(1)
	}
}

// count is how many IDs to ask for: one in most requests, otherwise a batch, for which
// 1 to 10 is as likely as 100 to 1,000.
func count(random *rand.Rand, most int64) int64 {
	if random.IntN(4) > 0 {
		return 1
	}
	return int64(math.Exp(random.Float64() * math.Log(float64(most))))
}
