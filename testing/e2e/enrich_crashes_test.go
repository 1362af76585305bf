package e2e

import (
	"slices"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

// step is a step of an enricher's protocol, recognized by a text that the
// enricher or the server sends. The bytes before the text have been delivered;
// the text has not.
type step struct {
	name string
	to   proxy.Direction
	text string
}

// turnSteps are those of every turn, whatever kind of batches the target takes.
var turnSteps = []step{
	{"asks for the turn", proxy.ToServer, "PUB ids.enrich.ORDERS.READY"},
	{"begins its turn", proxy.ToServer, "SUB ids.enrich.ORDERS.READY"},
	{"begins to read", proxy.ToServer, "CONSUMER.CREATE.ORDERS"},
	{"gets the first event", proxy.ToClient, "$JS.ACK.ORDERS"},
	{"asks for IDs", proxy.ToServer, "ids.segment.order"},
	{"saves a plan", proxy.ToServer, "$KV.ids_enrich.READY"},
	{"hears that a plan is saved", proxy.ToClient, `"stream":"KV_ids_enrich"`},
	{"is asked for the turn", proxy.ToClient, "ids.enrich.ORDERS.READY"},
	{"has handed over the turn", proxy.ToServer, "CONSUMER.DELETE.ORDERS"},
}

// atomicSteps are those of an atomic batch.
var atomicSteps = []step{
	{"begins a batch", proxy.ToServer, "Nats-Batch-Id"},
	{"is within a batch", proxy.ToServer, "Nats-Batch-Sequence: 2\r"},
	{"ends a batch", proxy.ToServer, "Nats-Batch-Commit"},
	{"hears that a batch is stored", proxy.ToClient, `"batch":`},
}

// fastSteps are those of a fast batch.
var fastSteps = []step{
	{"begins a batch", proxy.ToServer, ".fail.1.0.$FI"},
	{"is within a batch", proxy.ToServer, ".fail.2.1.$FI"},
	{"ends a batch", proxy.ToServer, ".2.$FI"},
	{"hears that a batch is stored", proxy.ToClient, `"batch":`},
}

// TestEventsArriveOnceThoughKilledAtAnyStep stops three enrichers in turn at
// the steps of the protocol. Each of them is killed, or else paused until
// another has taken over. Where consumers remove events from the target at
// once, the enrichment stops instead: see package enrich.
func TestEventsArriveOnceThoughKilledAtAnyStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		target jetstream.StreamConfig
		steps  []step
	}{
		{"atomic batches", targetConfig, slices.Concat(atomicSteps, turnSteps[:5])},
		{"fast batches", fastTarget(), slices.Concat(fastSteps, turnSteps[5:])},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnrichment(t)
			e.create(c.target)
			k := &crashes{enrichment: e, stopped: -1}
			k.startEnrichers([]string{e.url}, []string{e.url}, []string{e.url})
			for range tier.Pick(1, 10) {
				k.rounds(c.steps, 500*len(c.steps))
			}
			k.finish()
			e.checkAll()
		})
	}
}

// crashes is an enrichment whose enrichers and servers fail.
type crashes struct {
	*enrichment
	cutters   []*proxy.Proxy // a proxy for each enricher
	enrichers []*process
	stopped   int // the enricher that is paused, or -1

	killed, paused int
}

// startEnrichers starts an enricher for each list of servers.
func (c *crashes) startEnrichers(servers ...[]string) {
	c.t.Helper()
	for i, urls := range servers {
		c.cutters = append(c.cutters, proxy.Start(c.t, urls...))
		c.enrichers = append(c.enrichers, c.startEnricher(i))
	}
}

// rounds publishes events in as many rounds as there are steps.
func (c *crashes) rounds(steps []step, events int) {
	c.t.Helper()
	for i, at := range steps {
		c.round(at, events*(i+1)/len(steps)-events*i/len(steps))
		if i == 1 {
			c.verify() // while enrichers run
		}
	}
}

// finish has all enrichers go on, and checks everything once all events have
// arrived.
func (c *crashes) finish() {
	c.t.Helper()
	c.resume()
	c.await(c.sent - c.arrived)
	for _, p := range c.enrichers {
		p.stop(syscall.SIGTERM)
	}
	r, sent := c.verify(), uint64(c.sent)
	if r.Events+r.Gone != sent || r.Waiting > 0 || c.last("ORDERS") != sent || c.last("READY") != sent {
		c.t.Errorf("%+v of %d events; the streams end at %d and %d", r, sent, c.last("ORDERS"), c.last("READY"))
	}
	c.t.Logf("%d events, verified: %d; enrichers killed: %d, paused: %d", sent, r.Events, c.killed, c.paused)
}

// startEnricher starts an enricher, which has to go on: the servers are all
// there.
func (c *crashes) startEnricher(i int) *process {
	c.t.Helper()
	var p *process
	natstest.Eventually(c.t, "an enricher starts", func() bool {
		p = c.tryStart(c.cutters[i].URL(), "--replicas", "1")
		if p.hasEnded() && p.wait() != exitTryLater { // the machine is busy
			c.t.Fatalf("an enricher ended with %v:\n%s", p.cmd.ProcessState, p.stderr.Tail())
		}
		return !p.hasEnded()
	})
	return p
}

// round publishes events, and has the first enricher that comes to the step
// stop there.
func (c *crashes) round(at step, events int) {
	c.t.Helper()
	c.disarm()
	hits := make([]<-chan struct{}, len(c.cutters))
	for i, cut := range c.cutters {
		if i != c.stopped {
			hits[i] = cut.Freeze(at.to, at.text)
		}
	}
	c.publish(events)
	hit := c.awaitHit(at, hits)
	c.disarm()
	for i, cut := range c.cutters { // two may have come to the step at once
		if i != hit && i != c.stopped {
			cut.Release()
		}
	}
	c.t.Logf("enricher %d %s", hit, at.name)
	pause := c.stopped < 0
	if pause {
		c.enrichers[hit].pause()
		c.stopped = hit
		c.paused++
	} else {
		c.enrichers[hit].kill()
		c.killed++
	}
	if pause {
		return
	}
	natstest.Eventually(c.t, "another one has the turn than "+c.enrichers[c.stopped].instance(), func() bool {
		p := c.owner(c.enrichers)
		return p != nil && p != c.enrichers[c.stopped]
	})
	c.resume()
	c.enrichers[hit] = c.startEnricher(hit)
}

// awaitHit waits until an enricher comes to the step, and returns that
// enricher. A batch has the events that are stored when it is made, perhaps a
// single event: then more must follow.
func (c *crashes) awaitHit(at step, hits []<-chan struct{}) (hit int) {
	c.t.Helper()
	natstest.Eventually(c.t, "an enricher "+at.name, func() bool {
		for hit = range hits {
			select {
			case <-hits[hit]:
				return true
			default:
			}
		}
		if c.last("READY") == uint64(c.sent) {
			c.publish(100)
		}
		return false
	})
	return hit
}

func (c *crashes) disarm() {
	for _, cut := range c.cutters {
		cut.Disarm()
	}
}

// resume has the paused enricher continue.
func (c *crashes) resume() {
	if c.stopped >= 0 {
		c.enrichers[c.stopped].resume()
		c.cutters[c.stopped].Release()
		c.stopped = -1
	}
}
