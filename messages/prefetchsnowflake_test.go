package messages_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// TestPrefetchSnowflake: snowflake IDs come once each. Workers that refuse
// large batches get small ones, and large ones when they no longer refuse.
func TestPrefetchSnowflake(t *testing.T) {
	const (
		most    = 5   // IDs in a request at first
		refused = 500 // after so many IDs, any number
		total   = 10_000
	)
	for _, code := range []string{"429", "503"} {
		t.Run(code, func(t *testing.T) {
			virtually(t, func(t *testing.T, srv virtual) {
				var requests atomic.Int64
				next := int64(1)
				_, err := srv.Connect(t).Subscribe(messages.DefaultPrefix.Snowflake(), func(req *nats.Msg) {
					n, err := messages.DecodeCount(req.Data, 10_000)
					if err != nil || n > most && next < refused {
						send(t, req, message("", code, "too many"))
						return
					}
					requests.Add(1)
					send(t, req, message(messages.Range{First: next, Last: next + n - 1}.String(), "", ""))
					next += n
				})
				if err != nil {
					t.Fatal(err)
				}
				p := prefetchSnowflake(t, srv.Connect(t))
				seen := make(map[int64]bool)
				for i := range total {
					if i%10 == 0 {
						time.Sleep(time.Millisecond) // so that batches grow
					}
					id := takeOne(t, p)
					if seen[id] {
						t.Fatalf("ID %d came twice", id)
					}
					seen[id] = true
				}
				if n := requests.Load(); n > total/10 {
					t.Errorf("%d requests for %d IDs", n, total)
				}
			})
		})
	}
}

// TestPrefetchSnowflakeErrors: the errors name snowflake IDs instead of a tag.
func TestPrefetchSnowflakeErrors(t *testing.T) {
	virtually(t, func(t *testing.T, srv virtual) {
		nc := srv.Connect(t)
		p := prefetchSnowflake(t, nc)
		p.Close()
		if id, err := p.Next(t.Context()); id != 0 || !errors.Is(err, messages.ErrClosed) || err.Error() != "prefetch snowflake IDs: prefetcher is closed" {
			t.Errorf("%d, %v", id, err)
		}
		if p, err := messages.NewClient(nc, "i.ds").PrefetchSnowflake(messages.PrefetchConfig{}); p != nil || !errors.Is(err, messages.ErrPrefix) {
			t.Errorf("malformed prefix: %v", err)
		}
		if p, err := messages.NewClient(nc, messages.DefaultPrefix).PrefetchSnowflake(messages.PrefetchConfig{Limit: -1}); p != nil || !errors.Is(err, messages.ErrPrefetch) {
			t.Errorf("negative limit: %v", err)
		}
	})
}

func prefetchSnowflake(t testing.TB, nc *nats.Conn) *messages.Prefetcher {
	t.Helper()
	p, err := messages.NewClient(nc, messages.DefaultPrefix).PrefetchSnowflake(messages.PrefetchConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
