package e2e

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// callers request IDs, each with a request at a time, until stopped.
type callers struct {
	t       testing.TB
	ledgers ledgers
	stop    atomic.Bool
	wg      sync.WaitGroup
}

// load describes the callers' requests.
type load struct {
	callers  int
	tags     []string
	maxBatch int64
	retry    func(error) bool // further errors after which a caller retries
	timeout  time.Duration    // after which the request is taken for lost; 0: that finds hangs
	into     ledgers          // nil: their own
}

// startCallers starts callers, each with a connection of its own.
func startCallers(t testing.TB, url string, l load) *callers {
	t.Helper()
	c := &callers{t: t, ledgers: l.into}
	if c.ledgers == nil {
		c.ledgers = newLedgers(l.tags)
	}
	for i := range l.callers {
		client := dial(t, url)
		random := rand.New(rand.NewPCG(uint64(i), 2))
		c.wg.Go(func() { c.call(client, random, l) })
	}
	t.Cleanup(c.finish)
	return c
}

// finish stops the callers, and waits for their last replies.
func (c *callers) finish() {
	c.stop.Store(true)
	c.wg.Wait()
}

// more returns when that many more IDs have been handed out.
func (c *callers) more(n int64) {
	c.t.Helper()
	target := c.ledgers.ids() + n
	natstest.Eventually(c.t, "IDs are handed out", func() bool { return c.ledgers.ids() >= target || c.t.Failed() })
}

// call is a caller.
func (c *callers) call(client requester, random *rand.Rand, l load) {
	for !c.stop.Load() {
		tag, n := l.tags[random.IntN(len(l.tags))], count(random, l.maxBatch)
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(l.timeout, natstest.Patience))
		ranges, err := client.NextN(ctx, tag, n)
		cancel()
		switch {
		case err == nil:
			c.ledgers[tag].add(ranges)
		case !isAskAgain(err) && (l.retry == nil || !l.retry(err)):
			c.t.Errorf("request for %d IDs of %s failed: %v", n, tag, err)
			return
		}
	}
}

// isAskAgain reports whether a worker orders a retry: its machine is busy.
func isAskAgain(err error) bool {
	return errors.Is(err, messages.ErrBusy) || errors.Is(err, messages.ErrUnavailable)
}

// count returns the IDs of a request: one in most requests, otherwise a batch,
// for which 1 to 10 is as likely as 100 to 1,000.
func count(random *rand.Rand, most int64) int64 {
	if random.IntN(4) > 0 {
		return 1
	}
	return int64(math.Exp(random.Float64() * math.Log(float64(most))))
}
