package enrich

import (
	"testing"

	"github.com/idworker/idworker/testing/tier"
)

// Events arrive once, in order, each with its own ID, while three enrichers
// start and stop.
func TestEventsArriveOnceInOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := tier.Pick(5000, 20_000)
	_, stop1 := b.start(b.config())
	e2, _ := b.start(b.config())
	b.publish(1, n/2)
	stop1()
	e3, _ := b.start(b.config())
	b.publish(n/2+1, n)
	b.await(uint64(n))
	b.expectAll(n)
	t.Logf("%+v %+v", e2.Figures(), e3.Figures())
}
