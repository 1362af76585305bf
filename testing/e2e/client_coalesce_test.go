package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker/history"
)

const (
	crowdCallers = 2000
	crowdMemory  = 50 << 20 // bytes of heap and stacks
)

// crowd are the callers of one client, each with a call at a time: every other
// one for an ID of the strict tag. Some calls are cancelled; no other may fail.
type crowd struct {
	t      *testing.T
	client *messages.Client
	began  time.Time
	stop   atomic.Bool
	wg     sync.WaitGroup

	answered, cancelled atomic.Int64
	memory              uint64 // the most bytes so far

	mu      sync.Mutex
	checker *history.Checker
	wrong   error // first fault
}

func startCrowd(t *testing.T, client *messages.Client) *crowd {
	t.Helper()
	seeds := seeded(t)
	c := &crowd{t: t, client: client, began: time.Now(), checker: history.NewChecker(snowflake.Layout{})}
	c.wg.Go(c.watchMemory)
	for i := range crowdCallers {
		random := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		c.wg.Go(func() { c.run(i, random) })
	}
	t.Cleanup(c.finish)
	return c
}

// run is a caller.
func (c *crowd) run(caller int, random *rand.Rand) {
	kind, tag := history.Single, "order"
	if caller%2 == 1 {
		kind, tag = history.Strict, strictTag
	}
	for !c.stop.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
		leaves := random.IntN(8) == 0
		if leaves {
			time.AfterFunc(time.Duration(random.Int64N(int64(50*time.Millisecond))), cancel)
		}
		call := history.Call{Kind: kind, Tag: tag, Count: 1, Sent: time.Since(c.began)}
		id, err := c.client.Next(ctx, tag)
		cancel()
		switch {
		case err == nil:
			call.Ranges = []messages.Range{{First: id, Last: id}}
			c.record(call)
		case leaves && errors.Is(err, context.Canceled):
			c.cancelled.Add(1)
		default:
			c.t.Errorf("a call for %s: %v", tag, err)
			return
		}
	}
}

// record checks a call. The lock keeps the calls in the order of their replies.
func (c *crowd) record(call history.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.Received = time.Since(c.began)
	inOrder := ""
	if call.Kind == history.Strict {
		inOrder = call.Tag
	}
	if wrong := c.checker.Check(&call, inOrder); len(wrong) > 0 && c.wrong == nil {
		c.wrong = wrong[0]
	}
	c.answered.Add(1)
}

// watchMemory keeps the most memory that Go's heap and stacks take.
func (c *crowd) watchMemory() {
	classes := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for !c.stop.Load() {
		metrics.Read(classes)
		c.memory = max(c.memory, classes[0].Value.Uint64()+classes[1].Value.Uint64())
		time.Sleep(5 * time.Millisecond)
	}
}

// more returns when as many calls as there are callers have been answered.
func (c *crowd) more() {
	c.t.Helper()
	target := c.answered.Load() + crowdCallers
	natstest.Eventually(c.t, "calls are answered", func() bool { return c.answered.Load() >= target || c.t.Failed() })
}

func (c *crowd) finish() {
	c.stop.Store(true)
	c.wg.Wait()
}

// check judges the calls.
func (c *crowd) check() {
	c.t.Helper()
	if c.wrong != nil {
		c.t.Error(c.wrong)
	}
	if c.memory > crowdMemory {
		c.t.Errorf("%d KB of memory, want at most %d", c.memory>>10, crowdMemory>>10)
	}
	c.t.Logf("%d calls answered, %d cancelled; at most %d KB of memory", c.answered.Load(), c.cancelled.Load(), c.memory>>10)
}

// TestCrowdOfOneClient: the calls of two thousand callers travel together, while
// one of three workers is frozen, another is killed, and callers leave. Each ID
// comes once, strict ones in order. Memory is bounded, and afterwards the client
// has no goroutine. The test is not parallel: both are the process's.
func TestCrowdOfOneClient(t *testing.T) {
	host := startServer(t, t.TempDir(), "--role", "loader")
	join := func() *process { return startWorker(t, host.url, "--role", "worker") }
	workers := []*process{join(), join(), join()}
	createTag(t, host.url, "order", "--step", "100000")
	createTag(t, host.url, strictTag, "--order", "strict")
	client := messages.NewClient(connect(t, host.url), messages.DefaultPrefix)
	if _, err := client.Next(t.Context(), "order"); err != nil { // the connection opens its inbox
		t.Fatal(err)
	}

	others := goleak.IgnoreCurrent()
	c := startCrowd(t, client)
	for n := 0; n == 0 || time.Since(c.began) < tier.Pick(time.Second, 30*time.Second); n++ {
		frozen, killed := n%3, (n+1)%3
		workers[frozen].pause()
		c.more()
		workers[killed].kill()
		c.more()
		workers[frozen].resume() // and answers late
		workers[killed] = join()
		c.more()
	}
	c.finish()
	for _, w := range workers {
		w.kill()
	}
	if err := natstest.Await(natstest.Patience, "the client's goroutines to end", func() error { return goleak.Find(others) }); err != nil {
		t.Error(err)
	}
	c.check()
}
