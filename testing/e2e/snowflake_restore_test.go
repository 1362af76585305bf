package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestRestoreUnderWorkers: all of JetStream regresses to a random earlier
// moment, with a restart of the server, while three workers hand out snowflake
// IDs. In every second round a fourth worker starts at once. No ID is handed
// out twice, and all have worker IDs again: those that run on, at the latest when
// the declared outage is over.
func TestRestoreUnderWorkers(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	net := natstest.Start(t, func(o *server.Options) { o.StoreDir = store })
	ttl := 15 * time.Second // the shortest
	must(t, "provision", "--server", net.URL(), "--part", "ids", "--lease-ttl", ttl.String(), "--outage", "1m")
	serve := func() *process {
		t.Helper()
		p := settings{}.launch(t, "serve", "--server", net.URL(), "--role", "worker", "--max-clock-skew", "1s")
		p.serving()
		return p
	}
	held := func(want int) {
		t.Helper()
		js := natstest.JetStream(t, net.Connect(t))
		natstest.Eventually(t, "worker IDs are held", func() bool {
			all, _, err := lease.List(t.Context(), js, messages.DefaultPrefix, kv.ByConsumer)
			n := 0
			for _, h := range all {
				if h.Held() {
					n++
				}
			}
			return err == nil && n == want
		})
	}
	backup := filepath.Join(t.TempDir(), "backup")
	put := func(to, from string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		serve()
	}
	var issued snowflakes
	var stop atomic.Bool
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop.Store(true)
	for range 2 {
		client := messages.NewClient(connect(t, net.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)), messages.DefaultPrefix)
		callers.Go(func() {
			for !stop.Load() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				if ranges, err := client.SnowflakeN(ctx, 1000); err == nil { // no process holds a worker ID for a while
					issued.add(ranges)
				}
				cancel()
				time.Sleep(prefetchPause)
			}
		})
	}
	more := func() {
		t.Helper()
		target := issued.len() + 1000
		natstest.Eventually(t, "snowflake IDs", func() bool { return issued.len() >= target })
	}
	for round := range tier.Pick(1, 20) {
		held(3)
		more()
		net.Stop()
		put(backup, store)
		net.Restart()
		time.Sleep(rand.N(2 * ttl)) // the time that is forgotten
		net.Stop()
		put(store, backup)
		net.Restart()
		if round%2 == 0 {
			fourth := serve()
			more()
			fourth.stop(syscall.SIGTERM)
		}
		more()
	}
	held(3)
	stop.Store(true)
	callers.Wait()
	issued.check(t)
}
