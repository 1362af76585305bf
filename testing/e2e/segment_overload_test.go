package e2e

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// TestOverloadIsRefusedAndPasses sends a worker that gets a tenth of the
// processor five times its capacity. Requests that have waited too long get a
// 429, the worker leaves the queue group until it has worked off its backlog,
// its connection holds, and when the overload is over, requests are served at
// once.
func TestOverloadIsRefusedAndPasses(t *testing.T) {
	tier.Soak(t)
	lasts := tier.Pick(6*time.Second, 30*time.Second)
	const times, mostPerSecond = 5, 40_000
	ns := natstest.Start(t)
	w := startWorker(t, ns.URL(), "--max-step", "100000000", "--max-batch", "1")
	must(t, "tag", "create", "--server", ns.URL(), "order", "--step", "10000000", "--max-step", "100000000")
	heldByAll(t, ns.URL(), "order", 1)
	client := messages.NewClient(connect(t, ns.URL()), messages.DefaultPrefix)
	natstest.Eventually(t, "there is a worker ID", func() bool { _, err := client.Snowflake(t.Context()); return err == nil })
	fast := slowDown(w)
	defer fast()

	kinds := map[string]*flood{}
	var all sync.WaitGroup
	for _, subject := range []string{messages.DefaultPrefix.Segment("order"), messages.DefaultPrefix.Snowflake()} {
		f := &flood{conn: connect(t, ns.URL()), subject: subject}
		f.listen(t)
		kinds[subject] = f
	}
	capacity := 0 // of a single kind
	for _, f := range kinds {
		capacity = max(capacity, f.capacity(t))
	}
	rate := capacity * times / len(kinds) // of each
	if rate > mostPerSecond {
		t.Skipf("this machine answers %d requests a second at a tenth of its speed: it would take more to overload it than is good for it", capacity)
	}
	t.Logf("it can do %d requests a second; gets %d for each kind", capacity, rate)
	for _, f := range kinds {
		all.Go(func() { f.send(rate, lasts) })
	}
	all.Wait()
	over := time.Now()
	within, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	if _, err := client.Next(within, "order"); err != nil { // the worker still is slow
		t.Errorf("after the overload: %v", err)
	}
	t.Logf("served again %v after the overload", time.Since(over).Round(time.Millisecond))
	fast()
	for subject, f := range kinds {
		f.ids.check(t)
		if f.busy.Load()+f.nobody.Load() == 0 || f.other.Load() > 0 {
			t.Errorf("%s: %d times 429, %d times nobody and %d other errors, want some and none", subject, f.busy.Load(), f.nobody.Load(), f.other.Load())
		}
		t.Logf("%s: %d requests in %v, %d IDs, %d times 429, %d times nobody there", subject, f.sent.Load(), lasts, f.ids.ids(), f.busy.Load(), f.nobody.Load())
	}
	for range 100 {
		if _, err := client.Next(t.Context(), "order"); err != nil {
			t.Fatalf("after the overload: %v", err)
		}
	}
	for _, bad := range []string{"connection lost", "slow consumer"} {
		if strings.Contains(w.stderr.String(), bad) {
			t.Errorf("the worker logged %q", bad)
		}
	}
}

// slowDown lets a process run for only a tenth of the time, until stop is
// called.
func slowDown(p *process) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer p.resume()
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			switch n % 10 {
			case 0:
				p.resume()
			case 1:
				p.signal(syscall.SIGSTOP) // not pause, which waits
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

// flood sends requests without waiting for the replies, and counts those.
type flood struct {
	conn    *nats.Conn
	subject string
	inbox   string

	ids                       ledger
	sent, busy, nobody, other atomic.Int64
}

func (f *flood) listen(t *testing.T) {
	t.Helper()
	f.inbox = f.conn.NewInbox()
	f.ids.tag = f.subject
	sub, err := f.conn.Subscribe(f.inbox, func(msg *nats.Msg) {
		switch ranges, err := messages.DecodeReply(msg, 1); {
		case errors.Is(err, nats.ErrNoResponders):
			f.nobody.Add(1)
		case err == nil:
			f.ids.add(ranges)
		case errors.Is(err, messages.ErrBusy):
			f.busy.Add(1)
		default:
			f.other.Add(1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
}

// capacity is how many requests a second are answered when 4,096 are always
// under way.
func (f *flood) capacity(t *testing.T) int {
	t.Helper()
	const inFlight, during = 4096, 2 * time.Second
	began, answered := time.Now(), func() int64 { return f.ids.ids() + f.busy.Load() + f.nobody.Load() + f.other.Load() }
	for time.Since(began) < during {
		for f.sent.Load()-answered() < inFlight {
			f.request()
		}
		time.Sleep(time.Millisecond)
	}
	return int(float64(f.ids.ids()) / during.Seconds())
}

// send sends requests at a rate for some time.
func (f *flood) send(rate int, lasts time.Duration) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	for n := 0; time.Since(began) < lasts; <-ticker.C {
		for due := int(time.Since(began).Seconds() * float64(rate)); n < due; n++ {
			f.request()
		}
	}
}

func (f *flood) request() {
	if f.conn.PublishRequest(f.subject, f.inbox, nil) == nil {
		f.sent.Add(1)
	}
}
