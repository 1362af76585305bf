package lease

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestHoldersComeAndGo: 72 at a time share 32 worker IDs on a real server, and half of
// them crash: their connection ends, and they go on issuing until their time is over. All IDs differ, no two holders of a worker ID overlap, and each gets a
// worker ID within a minute; how soon is logged, for that depends on the host.
func TestHoldersComeAndGo(t *testing.T) {
	t.Parallel()
	holders := tier.Pick(150, 600)
	net := natstest.Start(t)
	provision(t, net)
	c := &churn{net: net}
	jobs := make(chan int)
	var wg sync.WaitGroup
	for range 72 {
		wg.Go(func() {
			for i := range jobs {
				c.holder(t, i%2 == 0)
			}
		})
	}
	for i := range holders {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
	c.check(t)
}

// layout32 has 32 worker IDs.
var layout32 = func() snowflake.Layout {
	spec := layout64.Spec()
	spec.Time, spec.Worker = spec.Time+1, spec.Worker-1
	l, err := snowflake.NewLayout(spec)
	if err != nil {
		panic(err)
	}
	return l
}()

type churn struct {
	net *natstest.Server

	mu      sync.Mutex
	ranges  []snowflake.Range
	spans   []span
	waits   []time.Duration
	refused int // ErrNoWorkerID
	lost    int // while it was connected
}

// holder is one that comes, issues for a while, and goes.
func (c *churn) holder(t *testing.T, goodbye bool) {
	conn := c.net.Connect(t)
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Error(err)
		return
	}
	cfg := config(js)
	cfg.Layout = layout32
	m, err := Open(t.Context(), cfg)
	for errors.Is(err, context.DeadlineExceeded) && t.Context().Err() == nil { // the server has much to do
		m, err = Open(t.Context(), cfg)
	}
	if err != nil {
		t.Error(err)
		return
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute) // only to find a hang
	defer stop()
	states := make(chan State, 1000)
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- m.Run(ctx, func(s State) { states <- s }) }()
	g, ranges := c.await(t, ctx, states)
	if g == nil {
		return
	}
	wait := time.Since(began)

	end := time.Now().Add(rand.N(500 * time.Millisecond))
	for refused := error(nil); refused == nil; pause.For(ctx, rand.N(10*time.Millisecond)) {
		ranges, refused = g.NextN(ranges, 1+rand.Int64N(100))
		if errors.Is(refused, snowflake.ErrAhead) {
			refused = nil
		}
		if time.Now().Before(end) {
			continue
		}
		if goodbye {
			break
		}
		conn.Close()
	}
	stop()
	if err := <-done; err != nil && goodbye && !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	if _, err := g.Next(); !errors.Is(err, snowflake.ErrRevoked) {
		t.Error("issues after the stop: ", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = append(c.waits, wait)
	if time.Now().Before(end) {
		c.lost++
	}
	c.ranges = append(c.ranges, ranges...)
	c.spans = append(c.spans, span{ranges[0].First, ranges[len(ranges)-1].Last})
}

// await returns the first generator that issues something, and that; or nil if there
// never is one. A claim that took long may have no time left until its first heartbeat.
func (c *churn) await(t *testing.T, ctx context.Context, states <-chan State) (*snowflake.Generator, []snowflake.Range) {
	var g *snowflake.Generator
	for ctx.Err() == nil {
		select {
		case s := <-states:
			g = s.Generator
			if errors.Is(s.Err, ErrNoWorkerID) {
				c.mu.Lock()
				c.refused++
				c.mu.Unlock()
			} else if s.Err != nil {
				t.Log(s.Err)
			}
		case <-time.After(5 * time.Millisecond):
		}
		if g == nil {
			continue
		}
		if ranges, err := g.NextN(nil, 1); err == nil {
			return g, ranges
		}
	}
	t.Error("never got a worker ID")
	return nil, nil
}

func (c *churn) check(t *testing.T) {
	slices.SortFunc(c.ranges, func(a, b snowflake.Range) int { return cmp.Compare(a.First, b.First) })
	ids := int64(0)
	for i, r := range c.ranges {
		ids += r.Len()
		if i > 0 && r.First <= c.ranges[i-1].Last {
			t.Fatalf("%d was issued twice", r.First)
		}
	}
	w := &world{layout: layout32, used: make(map[*snowflake.Generator]span)}
	for _, s := range c.spans {
		w.used[new(snowflake.Generator)] = s
	}
	for _, problem := range w.overlaps() {
		t.Error(problem)
	}
	slices.Sort(c.waits)
	longest := c.waits[len(c.waits)-1]
	t.Logf("%d holders, %d IDs; waited %v in the median, %v at most; %d times none was free, %d lost",
		len(c.spans), ids, c.waits[len(c.waits)/2], longest, c.refused, c.lost)
	if c.refused == 0 {
		t.Error("there always was a free one, so nothing was learnt")
	}
}
