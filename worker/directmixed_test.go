package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// handedOut is what callers got.
type handedOut struct {
	t      *testing.T
	strict bool
	mu     sync.Mutex
	all    map[int64]bool
	high   atomic.Int64
}

// ask asks for two IDs, and looks that nobody has them, and that those of a strict tag go up.
func (h *handedOut) ask(get func() ([]byte, error)) {
	before := h.high.Load()
	reply, err := get()
	if err != nil {
		if !isPassing(err) && !errors.Is(err, context.Canceled) {
			h.t.Error(err)
		}
		return
	}
	ranges, err := messages.DecodeRanges(reply, 2)
	if err != nil {
		h.t.Error(err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range messages.IDs(ranges) {
		if h.all[id] || h.strict && id <= before {
			h.t.Errorf("%d twice: %v, or not above %d", id, h.all[id], before)
		}
		h.all[id] = true
		h.high.Store(max(h.high.Load(), id))
	}
}

// enough are so many IDs that a test has shown something.
const enough = 100

func (h *handedOut) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// TestWithdrawnRequestsGiveNothingToOthers: whoever asks by HTTP or by NATS, of whichever worker, gets IDs of its
// own and in order, though many go away while they wait, and owners stop.
func TestWithdrawnRequestsGiveNothingToOthers(t *testing.T) {
	t.Parallel()
	const askers, calls = 6, 50
	random := worker.NewRandom(t)
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	if err := worker.Provision(t.Context(), newJetStream(t, net), messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	createStrict(t, net, s, 3, "strict")
	createTags(t, net, s, 3, "trend") // small steps: most requests wait
	results := map[string]*handedOut{"strict": {t: t, strict: true, all: map[int64]bool{}}, "trend": {t: t, all: map[int64]bool{}}}
	for range tier.Pick(1, 5) {
		workers := startStrict(t, net, s, 3)
		var ways []*worker.Direct
		for _, w := range workers {
			awaitTags(t, w, 2)
			ways = append(ways, direct(t, w))
		}
		ways = ways[:2] // the third one stops
		var all sync.WaitGroup
		var asked atomic.Int64
		deadline := time.Now().Add(natstest.Patience)
		more := func(h *handedOut, call int) bool {
			return call < calls || h.len() < enough && time.Now().Before(deadline)
		}
		for i := range askers {
			for tag, h := range results {
				all.Go(func() {
					for call := 0; more(h, call); call++ {
						asked.Add(1)
						h.ask(func() ([]byte, error) {
							ctx, cancel := context.WithTimeout(t.Context(), random.Below(8*time.Millisecond))
							defer cancel()
							return ways[i%len(ways)].Segment(ctx, tag, []byte("2"), false)
						})
					}
				})
				conn := net.Connect(t)
				all.Go(func() {
					for call := 0; more(h, call); call++ {
						asked.Add(1)
						h.ask(func() ([]byte, error) {
							msg, err := conn.Request("ids.segment."+tag, []byte("2"), 5*time.Second)
							if err != nil {
								return nil, err
							}
							_, err = messages.DecodeReply(msg, 2)
							return msg.Data, err
						})
					}
				})
			}
		}
		all.Go(func() { // in the midst of it
			for asked.Load() < askers*calls {
				time.Sleep(time.Millisecond)
			}
			stop(t, workers[2])
		})
		all.Wait()
		for _, w := range workers[:2] {
			stop(t, w)
		}
	}
	for tag, h := range results {
		t.Logf("%s: %d IDs, the highest is %d", tag, len(h.all), h.high.Load())
		if len(h.all) < enough {
			t.Errorf("%s: %d IDs show nothing, want %d", tag, len(h.all), enough)
		}
	}
}
