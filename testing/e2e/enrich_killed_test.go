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

// TestEventsArriveOnceThoughEnricherIsPaused stops the enricher whose turn it is until
// another one has taken over, and then lets it go on.
func TestEventsArriveOnceThoughEnricherIsPaused(t *testing.T) {
	t.Parallel()
	e := newEnrichment(t)
	enrichers := []*process{e.start(e.ns.URL()), e.start(e.ns.URL())}
	const some = 3000
	for range soak.Pick(3, 5) {
		// Stopped while events keep coming, the owner is in the middle of a batch.
		before, published := e.last("READY"), make(chan struct{})
		go func() { defer close(published); e.publish(2 * some) }()
		var paused *process
		natstest.Eventually(t, readyWithin, "an enricher has the turn, and is at work", func() bool {
			paused = e.owner(enrichers)
			return paused != nil && e.last("READY") > before+some/2
		})
		paused.signal(syscall.SIGSTOP)
		<-published
		e.await(e.sent - e.arrived)
		natstest.Eventually(t, readyWithin, "another one has the turn", func() bool {
			p := e.owner(enrichers)
			return p != nil && p != paused
		})
		e.publish(some)
		paused.signal(syscall.SIGCONT)
		e.publish(some)
	}
	e.checkAll()
	for _, p := range enrichers {
		p.stop(syscall.SIGTERM)
	}
	e.checkAll()
	t.Logf("%d events", e.arrived)
}
