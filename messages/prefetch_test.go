package messages_test

import (
	"context"
	"errors"
	"fmt"
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
	refusal  atomic.Pointer[nats.Msg] // if set, the reply to all
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
	if refusal := s.refusal.Load(); refusal != nil {
		send(s.t, req, refusal)
		return
	}
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

// TestPrefetchCloseWhileWaiting: no worker answers, and Close does not wait.
func TestPrefetchCloseWhileWaiting(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	requests := respond(t, srv.Connect(t), "order", func(int64, *nats.Msg) {})
	p := prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{})
	got := make(chan error, 1)
	go func() {
		_, err := p.Next(context.Background())
		got <- err
	}()
	natstest.Eventually(t, "it is asked", func() bool { return requests.Load() > 0 })
	p.Close()
	if err := <-got; !errors.Is(err, messages.ErrClosed) {
		t.Error(err)
	}
}

// TestPrefetchClosed: buffered IDs are no longer returned.
func TestPrefetchClosed(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	source := startNumbers(t, srv.Connect(t), "order", 1, 10_000)
	p := prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{})
	taken := int64(0)
	for ; taken < 1000 || source.handed.Load() < taken+100; taken++ {
		if _, err := p.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	if id, err := p.Next(t.Context()); id != 0 || !errors.Is(err, messages.ErrClosed) {
		t.Errorf("%d, %v", id, err)
	}
}

// TestPrefetchOfStrictTag: requests of a prefetcher have a header, and workers
// refuse them for a strict tag. Requests for immediate use have no header.
func TestPrefetchOfStrictTag(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect(t)
	respond(t, nc, "strict", func(_ int64, req *nats.Msg) {
		if req.Header.Get(messages.PrefetchHeader) != "" {
			send(t, req, message("", "409", "the tag is strictly ordered"))
			return
		}
		send(t, req, message("1", "", ""))
	})
	p := prefetch(t, nc, "strict", messages.PrefetchConfig{})
	if id, err := p.Next(within(t, long)); !errors.Is(err, messages.ErrStrict) {
		t.Errorf("a prefetcher of a strict tag: %d, %v, want ErrStrict", id, err)
	}
	if id, err := messages.NewClient(nc, messages.DefaultPrefix).Next(within(t, long), "strict"); err != nil || id != 1 {
		t.Errorf("a client: %d, %v", id, err)
	}
}

// TestPrefetchErrors: a lasting error reaches all waiting callers, and ends
// with its cause.
func TestPrefetchErrors(t *testing.T) {
	t.Parallel()
	const callers = 50
	srv := natstest.Start(t)
	nc := srv.Connect(t)
	for _, c := range []struct {
		reply *nats.Msg
		want  error
	}{
		{message("", "404", "no"), messages.ErrNoTag},
		{message("", "507", "no"), messages.ErrExhausted},
		{message("nonsense", "", ""), messages.ErrReply},
		{message("", "400", "no"), messages.ErrMalformed},
	} {
		tag := fmt.Sprintf("tag-%T-%v", c.want, c.reply.Header.Get("Nats-Service-Error-Code"))
		tag = strings.NewReplacer("*", "", ".", "-").Replace(tag)
		source := startNumbers(t, srv.Connect(t), tag, 1, 10)
		source.refusal.Store(c.reply)
		p := prefetch(t, nc, tag, messages.PrefetchConfig{MaxBatch: 10})
		for range 3 {
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					if id, err := p.Next(within(t, long)); id != 0 || !errors.Is(err, c.want) {
						t.Errorf("%d, %v, want %v", id, err, c.want)
					}
				})
			}
			wg.Wait()
		}
		source.refusal.Store(nil)
		seen := make(map[int64]bool)
		for len(seen) < 30 && !t.Failed() {
			id, err := p.Next(within(t, long))
			if errors.Is(err, c.want) { // of a request in flight
				continue
			}
			if id < 1 || seen[id] || err != nil {
				t.Errorf("after %v: %d, %v", c.want, id, err)
			}
			seen[id] = true
		}
	}
}

// TestPrefetchWaits: the reason why no worker answers is returned when ctx
// ends, not before, and IDs that arrive in time are used.
func TestPrefetchWaits(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		for name, c := range map[string]struct {
			reply *nats.Msg
			want  error
		}{
			"503": {message("", "503", "no"), messages.ErrUnavailable},
			"429": {message("", "429", "no"), messages.ErrBusy},
		} {
			source := startNumbers(t, srv.Connect(t), name, 1, 10)
			source.refusal.Store(c.reply)
			p := prefetch(t, nc, name, messages.PrefetchConfig{})
			if id, err := p.Next(within(t, 3*time.Second)); id != 0 || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, c.want) {
				t.Errorf("%d, %v, want a deadline and %v", id, err, c.want)
			}
			source.refusal.Store(nil)
			if id, err := p.Next(within(t, long)); id < 1 || err != nil {
				t.Errorf("%d, %v", id, err)
			}
		}
		p := prefetch(t, nc, "nobody", messages.PrefetchConfig{})
		if _, err := p.Next(within(t, 3*time.Second)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("nobody there: %v", err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Next(over); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		nc.Close()
		natstest.Eventually(t, "the request under way has failed", func() bool {
			_, err := p.Next(within(t, long))
			return errors.Is(err, nats.ErrConnectionClosed)
		})
	})
}

// TestPrefetchLastIDs: at 2^63−1 no ID wraps around, even with many callers.
// Virtual time keeps a slow reply from being requested again.
func TestPrefetchLastIDs(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		respond(t, srv.Connect(t), "order", func(number int64, req *nats.Msg) {
			if number == 1 {
				send(t, req, message("9223372036854775807", "", ""))
				return
			}
			send(t, req, message("", "507", "used up"))
		})
		p := prefetch(t, srv.Connect(t), "order", messages.PrefetchConfig{Limit: 1})
		if id, err := p.Next(within(t, long)); id != math.MaxInt64 || err != nil {
			t.Errorf("%d, %v, want the last ID", id, err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if id, err := p.Next(within(t, long)); id != 0 || !errors.Is(err, messages.ErrExhausted) {
						t.Errorf("%d, %v, want that IDs are used up", id, err)
					}
				}
			})
		}
		wg.Wait()
	})
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
