package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/cutter"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestEventsArriveOnceThoughEnricherIsKilled kills enrichers with -9 at the points where
// only the target knows what of a batch arrived: before the answer to it is read, before
// its last message is sent, and in the middle of a fast batch.
func TestEventsArriveOnceThoughEnricherIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		target jetstream.StreamConfig
		server bool
		text   string
	}{
		{"publish and answer", targetConfig, true, `"batch":`},
		{"record and publish", targetConfig, false, "Nats-Batch-Commit"},
		{"in a fast batch", fastTarget(), false, ".fail.2.1.$FI"},
		{"fast batch and answer", fastTarget(), true, `"batch":`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnrichment(t)
			e.create(c.target)
			for round := range soak.Pick(6, 10) { // each kind of round, see killedAt
				e.killedAt(round, c.server, c.text)
			}
			e.start(e.url)
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
	cut := startCutter(e.t, e.url)
	var hit <-chan struct{}
	if round%3 == 2 { // perhaps while it finishes the plan of the one before
		hit = cut.Arm(server, text)
	}
	p := e.start(cut.URL())
	if hit == nil {
		e.publish(100)
		e.await(e.sent - e.arrived)
		hit = cut.Arm(server, text)
	}
	e.publish(40 + 37*round) // so many that some are a batch: one alone is none
	natstest.Eventually(e.t, readyWithin, "the enricher is cut off", func() bool {
		select {
		case <-hit:
			return true
		default:
		}
		if e.last("READY") == uint64(e.sent) { // a batch has what was there: these were too small
			e.publish(3 + 37*round)
		}
		return false
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
	for name, c := range map[string]struct {
		target jetstream.StreamConfig
		texts  []string // of messages before which it is stopped
	}{
		"atomic batches": {targetConfig, []string{"Nats-Batch-Commit", "Nats-Batch-Id"}},
		"fast batches":   {fastTarget(), []string{".fail.7.1.$FI", ".2.$FI"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testPausedEnrichers(t, c.target, c.texts)
		})
	}
}

func testPausedEnrichers(t *testing.T, target jetstream.StreamConfig, texts []string) {
	e := newEnrichment(t)
	e.create(target)
	var cutters []*cutter.Cutter
	var enrichers []*process
	for range 2 {
		c := startCutter(t, e.url)
		cutters, enrichers = append(cutters, c), append(enrichers, e.start(c.URL()))
	}
	const some = 1000
	for round := range soak.Pick(4, 10) {
		e.publish(some)
		text := texts[round%len(texts)]
		hits := []<-chan struct{}{cutters[0].Arm(false, text), cutters[1].Arm(false, text)}
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
		paused.pause()
		cutters[1-cut].Arm(false, "") // whoever takes over is not cut
		e.await(e.sent - e.arrived)
		natstest.Eventually(t, readyWithin, "another one has the turn", func() bool {
			p := e.owner(enrichers)
			return p != nil && p != paused
		})
		cutters[cut].Release()
		paused.resume()
	}
	e.checkAll()
	for _, p := range enrichers {
		p.stop(syscall.SIGTERM)
	}
	e.checkAll()
	e.verify()
	t.Logf("%d events", e.arrived)
}
