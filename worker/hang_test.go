package worker_test

import (
	"sync"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestHungTagDelaysNoOther: while the store hangs for one tag, another is answered,
// and loaded. The first gets IDs when the store is back.
func TestHungTagDelaysNoOther(t *testing.T) {
	t.Parallel()
	const parked = 20
	net := worker.NewAccount(t)
	s := &gate{Store: newStore(t, net, 1)}
	startWorker(t, net, worker.Config{Store: s})
	createTags(t, s, 10, "hung", "fine")
	c := newClient(t, net)
	c.must("fine")

	open := s.close("hung")
	defer open()
	var requests sync.WaitGroup
	for range parked {
		requests.Go(func() {
			if _, err := c.patiently("hung", 1); err != nil {
				t.Errorf("hung: %v", err)
			}
		})
	}
	natstest.Eventually(t, "a call that hangs", func() bool { return s.underWay.Load() > 0 })
	for range 200 { // twenty segments
		if _, err := c.patiently("fine", 1); err != nil {
			t.Errorf("fine: %v", err)
			break
		}
	}
	if s.underWay.Load() == 0 {
		t.Error("the store does not hang any more: this shows nothing")
	}
	open()
	requests.Wait()
}
