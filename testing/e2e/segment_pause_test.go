package e2e

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// TestNoDuplicateFromPausedWorker stops one of two workers in the middle of its work and
// lets it go on later, as a debugger, a hypervisor or swapping does. It finds requests whose
// callers have long had their IDs from elsewhere, and answers them: those IDs count too,
// although nobody waits for them.
func TestNoDuplicateFromPausedWorker(t *testing.T) {
	t.Parallel()
	const tag = "order"
	ns := natstest.Start(t, syncAlways)
	granted := listen(t, ns.URL())
	args := []string{"--max-batch", "500", "--max-step", "2000"}
	paused, other := startWorker(t, ns.URL(), args...), startWorker(t, ns.URL(), args...)
	must(t, "tag", "create", "--server", ns.URL(), tag, "--step", "100", "--max-step", "2000")
	knownToAll(t, ns.URL(), tag, 2)

	wire := overhear(t, ns.URL(), tag)
	c := startCallers(t, ns.URL(), load{
		callers: 4, tags: []string{tag}, maxBatch: 500, timeout: 400 * time.Millisecond,
		// Busy: requests that lie behind those that waited during the pause.
		retry: func(err error) bool {
			return lost(err) || errors.Is(err, messages.ErrUnavailable) || errors.Is(err, messages.ErrBusy)
		},
		inbox: overheard,
	})
	more := func(n int64) {
		t.Helper()
		target := c.ledgers.ids() + n
		natstest.Eventually(t, time.Minute, "IDs are handed out", func() bool { return c.ledgers.ids() >= target || t.Failed() })
	}
	for range 2 {
		more(5000)
		paused.pause()
		missed := c.lost.Load()
		natstest.Eventually(t, time.Minute, "callers miss the paused worker", func() bool { return c.lost.Load() >= missed+20 || t.Failed() })
		more(1000) // of the other one
		paused.resume()
	}
	more(5000)
	replies := c.finish()

	// Whatever is still on its way arrives before the workers have stopped.
	other.stop(syscall.SIGTERM)
	paused.stop(syscall.SIGTERM)
	wire.settle(t)
	wire.check(t)
	answered := checkOrder(t, granted, replies)
	if answered[paused.instance()] == 0 || answered[other.instance()] == 0 {
		t.Errorf("replies by process: %v, want some of both", answered)
	}
	late := wire.ids.Load() - c.ledgers.ids()
	if late <= 0 {
		t.Errorf("%d IDs on the wire beside those that callers took: the paused worker answered nothing late", late)
	}
	t.Logf("%d IDs taken, %d more in replies that came too late, %d requests asked again", c.ledgers.ids(), late, c.lost.Load())
}

// overheard is the inbox prefix of callers whose replies are listened to.
const overheard = "_OVERHEARD"

// tap receives every reply to callers with that inbox, the late ones included.
type tap struct {
	ledger
	conn *nats.Conn
}

func overhear(t testing.TB, url, tag string) *tap {
	t.Helper()
	w := &tap{ledger: ledger{tag: tag}, conn: connect(t, url)}
	sub, err := w.conn.Subscribe(overheard+".>", func(msg *nats.Msg) {
		if len(msg.Data) == 0 { // an error, or nobody was there
			return
		}
		ranges, err := rangesOf(msg.Data)
		if err != nil {
			t.Errorf("reply on the wire: %v", err)
			return
		}
		w.add(ranges)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	flush(t, w.conn)
	return w
}

// settle returns when all that was sent to the tap is counted.
func (w *tap) settle(t testing.TB) {
	t.Helper()
	flush(t, w.conn)
	done := make(chan struct{})
	if err := w.conn.Barrier(func() { close(done) }); err != nil {
		t.Fatal(err)
	}
	<-done
}
