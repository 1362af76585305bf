package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestNoDuplicateAsHoldersComeAndGo has processes issue IDs while some are killed, stopped
// and started. There are only twice as many worker IDs as processes, so that each soon has
// another holder.
func TestNoDuplicateAsHoldersComeAndGo(t *testing.T) {
	const callerCount = 8
	processes := soak.Pick(4, 8)
	layoutText := soak.Pick("48:1ms/w3/s12@1735689600000", "47:1ms/w4/s12@1735689600000")
	total := soak.Pick[int64](1_000_000, 20_000_000)
	fewestChanges := soak.Pick(24, 32)
	layout, err := snowflake.ParseLayout(layoutText)
	if err != nil {
		t.Fatal(err)
	}
	nats := natstest.Start(t, syncAlways)
	launch := func() *process {
		return settings{}.launch(t, "serve", "--server", nats.URL(), "--layout", layoutText, "--lease-ttl", "2s")
	}
	var workers []*process
	for range processes {
		workers = append(workers, launch())
	}
	for _, p := range workers {
		p.serving()
	}
	held := watchLives(t, nats.URL(), layout)
	natstest.Eventually(t, readyWithin, "all have a worker ID", func() bool { _, n := held.count(); return n >= processes })

	begin := time.Now()
	c := startSnowflakeCallers(t, nats.URL(), callerCount, total)
	random := rand.New(rand.NewPCG(1, 4))
	kills, stops := 0, 0
	for ; (!c.done() || kills+stops < fewestChanges) && !t.Failed(); time.Sleep(100 * time.Millisecond) {
		at := random.IntN(processes)
		joined := launch() // meanwhile
		if (kills+stops)%2 == 0 {
			workers[at].kill()
			kills++
		} else {
			workers[at].stop(syscall.SIGTERM)
			stops++
		}
		joined.serving()
		workers[at] = joined
	}
	replies := c.finish()
	took := time.Since(begin)

	ids := checkDistinct(t, rangesOfAll(replies))
	makers := checkLives(t, held, replies)
	workerIDs, holders := held.count()
	if ids < total {
		t.Errorf("%d IDs, want %d", ids, total)
	}
	if holders < 2*workerIDs {
		t.Errorf("%d worker IDs had %d holders: too few were used again", workerIDs, holders)
	}
	// Only what was under way at a process when it was killed may be lost.
	if n := c.lost.Load(); n > int64(kills*callerCount) {
		t.Errorf("%d requests were lost to %d kills, at most %d were under way", n, kills, kills*callerCount)
	}
	t.Logf("%d IDs in %d replies in %v; %d killed, %d terminated, %d requests lost to kill -9, %d met no worker; %d worker IDs, %d holders, IDs of %d of them",
		ids, len(replies), took.Round(time.Millisecond), kills, stops, c.lost.Load(), c.early.Load(), workerIDs, holders, makers)
}

// snowflakeCallers ask for snowflake IDs, each one request at a time.
type snowflakeCallers struct {
	t    testing.TB
	stop atomic.Bool
	wg   sync.WaitGroup

	total int64 // after so many they slow down
	ids   atomic.Int64
	lost  atomic.Int64 // requests without an answer
	early atomic.Int64 // requests while no worker had a worker ID

	mu      sync.Mutex
	replies []reply
}

func startSnowflakeCallers(t testing.TB, url string, n int, total int64) *snowflakeCallers {
	t.Helper()
	c := &snowflakeCallers{t: t, total: total}
	for i := range n {
		client := dial(t, url)
		random := rand.New(rand.NewPCG(uint64(i), 3))
		c.wg.Go(func() { c.call(client, random) })
	}
	t.Cleanup(func() { c.finish() })
	return c
}

func (c *snowflakeCallers) done() bool { return c.ids.Load() >= c.total }

// finish stops the callers, waits for their last replies, and returns all of them.
func (c *snowflakeCallers) finish() []reply {
	c.stop.Store(true)
	c.wg.Wait()
	return c.replies
}

// call is one caller.
func (c *snowflakeCallers) call(client requester, random *rand.Rand) {
	var replies []reply
	defer func() {
		c.mu.Lock()
		c.replies = append(c.replies, replies...)
		c.mu.Unlock()
	}()
	for !c.stop.Load() {
		n := count(random, 4096)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		r := reply{sent: time.Now()}
		var err error
		r.ranges, err = client.SnowflakeN(ctx, n)
		cancel()
		r.received = time.Now()
		switch {
		case err == nil:
			replies = append(replies, r)
			c.ids.Add(n)
		case errors.Is(err, context.DeadlineExceeded):
			c.lost.Add(1)
		case isNobody(err):
			c.early.Add(1)
			time.Sleep(10 * time.Millisecond)
		default:
			c.t.Errorf("request for %d snowflake IDs failed after %v: %v", n, r.received.Sub(r.sent), err)
			return
		}
		if c.done() {
			time.Sleep(10 * time.Millisecond) // the rest of the test needs no more of them
		}
	}
}
