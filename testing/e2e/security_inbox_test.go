package e2e

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/tier"
)

// TestWrongInboxStopsNoWorker: a caller's requests name an inbox to which no
// worker may reply, thousands of times a second. Workers start beside it, serve
// others, and log the caller's mistake once.
func TestWrongInboxStopsNoWorker(t *testing.T) {
	tier.All(t)
	t.Parallel()
	p := startProduction(t, natsConf)
	p.provision()
	p.must("admin", "tag", "create", "order")
	p.serve("loader", "--role", "loader")
	p.serve("worker", "--role", "worker")
	wrong := p.connect("caller")
	stop, asking := make(chan struct{}), sync.WaitGroup{}
	t.Cleanup(func() { close(stop); asking.Wait() })
	asking.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for i := range 50 {
				// A JetStream request, too, would be another process's.
				for _, inbox := range []string{"_INBOX.x", "$JS.API.STREAM.INFO.OTHER"} {
					_ = wrong.PublishRequest("ids.segment.order", fmt.Sprint(inbox, ".", n*50+i), nil)
				}
			}
			time.Sleep(20 * time.Millisecond) // 5,000 a second
		}
	})
	right := p.as("order")
	for range tier.Pick(3, 12) {
		w := p.serve("worker", "--role", "worker")
		right.mustRun(t, "get", "order")
		w.signal(syscall.SIGTERM)
		if code := w.wait(); code != 0 {
			t.Errorf("a worker ends with %d", code)
		}
		if n := w.says("reply to a caller denied"); n > 2 { // of each connection, once a minute
			t.Errorf("logged the caller's mistake %d times", n)
		}
	}
}
