package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestEventsArriveOnceThoughEnricherIsKilled kills enrichers with -9 at the two points where
// only the target knows whether a batch arrived: before the answer to it is read, and
// before its last message is sent.
func TestEventsArriveOnceThoughEnricherIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		server bool
		text   string
	}{
		{"publish and answer", true, `"batch":`},
		{"record and publish", false, "Nats-Batch-Commit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnrichment(t)
			for round := range soak.Pick(6, 10) { // each kind of round, see killedAt
				e.killedAt(round, c.server, c.text)
			}
			e.start(e.ns.URL())
			e.checkAll()
			e.verify()
			t.Logf("%d events", e.arrived)
		})
	}
}

// killedAt starts an enricher, kills it at the text, and waits for longer than the target
// remembers message IDs. Every third round cuts at once, every second one empties the
// target, and so six rounds are all kinds.
func (e *enrichment) killedAt(round int, server bool, text string) {
	e.t.Helper()
	cut := startCutter(e.t, e.ns.URL())
	var hit <-chan struct{}
	if round%3 == 2 { // perhaps while it finishes the plan of the one before
		hit = cut.arm(server, text)
	}
	p := e.start(cut.url)
	if hit == nil {
		e.publish(100)
		e.await(e.sent - e.arrived)
		hit = cut.arm(server, text)
	}
	e.publish(1 + 37*round)
	natstest.Eventually(e.t, readyWithin, "the enricher is cut off", func() bool {
		select {
		case <-hit:
			return true
		default:
			return false
		}
	})
	p.kill()
	time.Sleep(2 * duplicateWindow)
	if round%2 == 1 {
		e.consume()
	}
}

// TestEventsArriveOnceThoughEnricherIsPaused stops the enricher whose turn it is before it
// publishes a batch, or before the last message of one, until another one has taken over.
// Then it goes on, and so does the batch.
func TestEventsArriveOnceThoughEnricherIsPaused(t *testing.T) {
	t.Parallel()
	e := newEnrichment(t)
	var cutters []*cutter
	var enrichers []*process
	for range 2 {
		c := startCutter(t, e.ns.URL())
		cutters, enrichers = append(cutters, c), append(enrichers, e.start(c.url))
	}
	const some = 1000
	for round := range soak.Pick(4, 10) {
		e.publish(some)
		text := []string{"Nats-Batch-Commit", "Nats-Batch-Id"}[round%2]
		hits := []<-chan struct{}{cutters[0].arm(false, text), cutters[1].arm(false, text)}
		e.publish(some)
		var cut int
		natstest.Eventually(t, readyWithin, "an enricher publishes a batch", func() bool {
			select {
			case <-hits[0]:
				cut = 0
			case <-hits[1]:
				cut = 1
			default:
				return false
			}
			return true
		})
		paused := enrichers[cut]
		paused.signal(syscall.SIGSTOP)
		cutters[1-cut].arm(false, "") // whoever takes over is not cut
		e.await(e.sent - e.arrived)
		natstest.Eventually(t, readyWithin, "another one has the turn", func() bool {
			p := e.owner(enrichers)
			return p != nil && p != paused
		})
		cutters[cut].release()
		paused.signal(syscall.SIGCONT)
	}
	e.checkAll()
	for _, p := range enrichers {
		p.stop(syscall.SIGTERM)
	}
	e.checkAll()
	e.verify()
	t.Logf("%d events", e.arrived)
}
