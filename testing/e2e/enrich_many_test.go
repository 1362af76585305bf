package e2e

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/soak"
)

// TestEventsArriveOnceThroughCrashes enriches many events while enrichers are killed,
// stopped and started all the time, and the server is restarted once.
func TestEventsArriveOnceThroughCrashes(t *testing.T) {
	t.Parallel()
	total := soak.Pick(50_000, 250_000)
	e := newEnrichment(t)
	e.create(fastTarget())
	var enrichers []*process
	for range 3 {
		enrichers = append(enrichers, e.start(e.ns.URL()))
	}
	published := make(chan struct{})
	go func() {
		defer close(published)
		e.publish(total)
	}()
	began, restarted, killed, stopped := time.Now(), false, 0, 0
	for last := uint64(0); last < uint64(total) && !t.Failed(); last = e.last("READY") {
		time.Sleep(time.Duration(100+rand.IntN(500)) * time.Millisecond)
		if rand.IntN(10) == 0 { // while enrichers are killed
			e.verify()
		}
		if !restarted && last > uint64(total/2) {
			restarted = true
			e.ns.Restart()
		}
		i := rand.IntN(len(enrichers))
		switch rand.IntN(3) {
		case 0:
			killed++
			enrichers[i].kill()
		case 1:
			stopped++
			enrichers[i].stop(syscall.SIGTERM)
		case 2: // nothing ends
			continue
		}
		enrichers[i] = e.start(e.ns.URL())
		if time.Since(began) > 8*time.Minute {
			t.Fatalf("%d of %d events after %v", last, total, time.Since(began))
		}
	}
	took := time.Since(began)
	<-published
	e.checkAll()
	e.verify()
	if !restarted {
		t.Error("the server was not restarted")
	}
	t.Logf("%d events in %v, %.0f/s; %d enrichers killed, %d stopped", e.arrived, took, float64(e.arrived)/took.Seconds(), killed, stopped)
}
