package messages_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// numbers answers requests for a tag as workers do, with numbers that only
// rise.
type numbers struct {
	t        testing.TB
	next     atomic.Int64
	maxBatch int64
	requests *atomic.Int64
	handed   atomic.Int64
	asked    sync.Map     // the reply subjects, one for each call
	repeated atomic.Int64 // IDs of repeated requests
}

func startNumbers(t testing.TB, nc *nats.Conn, tag string, first, maxBatch int64) *numbers {
	t.Helper()
	s := &numbers{t: t, maxBatch: maxBatch}
	s.next.Store(first)
	s.requests = respond(t, nc, tag, s.answer)
	return s
}

func (s *numbers) answer(_ int64, req *nats.Msg) {
	n, err := messages.DecodeCount(req.Data, s.maxBatch)
	if err != nil {
		send(s.t, req, message("", "400", err.Error()))
		return
	}
	first := s.next.Add(n) - n
	s.handed.Add(n)
	if _, repeated := s.asked.LoadOrStore(req.Reply, true); repeated {
		s.repeated.Add(n)
	}
	reply := messages.AppendRange(nil, messages.Range{First: first, Last: first + n - 1})
	if n > 3 { // in two ranges, as at the end of a segment
		reply = messages.AppendRange(nil, messages.Range{First: first, Last: first + n/2 - 1})
		reply = messages.AppendRange(reply, messages.Range{First: first + n/2, Last: first + n - 1})
	}
	send(s.t, req, message(string(reply), "", ""))
}

func prefetch(t testing.TB, nc *nats.Conn, tag string, cfg messages.PrefetchConfig) *messages.Prefetcher {
	t.Helper()
	p, err := messages.NewClient(nc, messages.DefaultPrefix).Prefetch(tag, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestPrefetchEachOnce: many goroutines take all IDs of a stretch of numbers,
// except those buffered at the end, and none twice.
func TestPrefetchEachOnce(t *testing.T) {
	const callers = 16
	each := tier.Pick[int64](10_000, 50_000)
	for name, cfg := range map[string]messages.PrefetchConfig{
		"default":      {},
		"small limit":  {Limit: 3},
		"small batch":  {MaxBatch: 7},
		"over maximum": {MaxBatch: 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each := each
			if cfg.Limit > 0 || cfg.MaxBatch == 7 {
				each /= 50 // a request brings few IDs
			}
			srv := natstest.Start(t)
			source := startNumbers(t, srv.Connect(t), "order", 1, 10_000)
			p := prefetch(t, srv.Connect(t), "order", cfg)
			ctx := within(t, long)
			taken := make([][]int64, callers)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					for range each {
						id, err := p.Next(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						taken[i] = append(taken[i], id)
					}
				})
			}
			wg.Wait()
			end := source.next.Load()
			seen := make([]bool, end)
			for _, id := range slices.Concat(taken...) {
				if id < 1 || id >= end || seen[id] {
					t.Fatalf("ID %d: twice, or never handed out", id)
				}
				seen[id] = true
			}
			limit := cfg.Limit
			if limit == 0 {
				limit = 1_000_000
			}
			// The reply to a try may be lost for each repeated request.
			left := source.handed.Load() - callers*each
			if most := limit + min(limit, 10_000) + source.repeated.Load(); left > most {
				t.Errorf("%d IDs not taken, want at most %d", left, most)
			}
			t.Logf("%d requests for %d IDs", source.requests.Load(), source.handed.Load())
		})
	}
}

// TestPrefetchCloseUnderLoad: every caller ends with ErrClosed, and nothing
// keeps running.
func TestPrefetchCloseUnderLoad(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	startNumbers(t, srv.Connect(t), "order", 1, 10_000)
	nc := srv.Connect(t)
	for range 20 {
		p := prefetch(t, nc, "order", messages.PrefetchConfig{})
		var wg sync.WaitGroup
		var taken atomic.Int64
		for range 8 {
			wg.Go(func() {
				for {
					_, err := p.Next(t.Context())
					if errors.Is(err, messages.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					taken.Add(1)
				}
			})
		}
		natstest.Eventually(t, "IDs are taken", func() bool { return taken.Load() > 1000 })
		wg.Go(p.Close)
		p.Close()
		wg.Wait()
		if id, err := p.Next(t.Context()); id != 0 || !errors.Is(err, messages.ErrClosed) {
			t.Errorf("after Close: %d, %v", id, err)
		}
	}
}

// TestPrefetchFollowsRate: requests become few when many IDs are taken, and
// batches no larger than workers allow.
func TestPrefetchFollowsRate(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		source := startNumbers(t, srv.Connect(t), "order", 1, 100)
		p := prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{})
		const total = 30_000
		for i := range int64(total) {
			if id, err := p.Next(t.Context()); err != nil || id < 1 {
				t.Fatalf("call %d: %d, %v", i, id, err)
			}
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		// Batches of 10,000 are refused and halved, down to 78.
		if n := source.requests.Load(); n > total/10 {
			t.Errorf("%d requests for %d IDs", n, total)
		}
	})
}

// TestPrefetchAllocatesNothing on the path that nearly all calls take.
func TestPrefetchAllocatesNothing(t *testing.T) {
	srv := natstest.Start(t)
	respond(t, srv.Connect(t), "order", func(number int64, req *nats.Msg) {
		n, _ := messages.DecodeCount(req.Data, math.MaxInt64)
		first := number << 40
		send(t, req, message(messages.Range{First: first, Last: first + n - 1}.String(), "", ""))
	})
	ctx := t.Context()
	p := prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{MaxBatch: 1_000_000})
	for range 1_000_000 { // until batches are large
		if _, err := p.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	allocs := testing.AllocsPerRun(100_000, func() { _, _ = p.Next(ctx) })
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestPrefetchConfig(t *testing.T) {
	client := messages.NewClient(natstest.Start(t).Connect(t), messages.DefaultPrefix)
	for _, cfg := range []messages.PrefetchConfig{
		{Runway: -1}, {Runway: time.Microsecond}, {Runway: 2 * time.Hour},
		{Limit: -1}, {Limit: 1_000_000_001},
		{MaxBatch: -1}, {MaxBatch: math.MaxInt64},
	} {
		if p, err := client.Prefetch("order", cfg); p != nil || !errors.Is(err, messages.ErrPrefetch) || !strings.Contains(err.Error(), "allowed is") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if p, err := client.Prefetch("or*er", messages.PrefetchConfig{}); p != nil || !errors.Is(err, messages.ErrTag) {
		t.Errorf("malformed tag: %v", err)
	}
}
