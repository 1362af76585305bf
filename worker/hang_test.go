package worker_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestHungTagDelaysNoOther: while the store hangs for one tag, another is answered,
// the first gets 503 at its deadline, and IDs as soon as the store is back.
func TestHungTagDelaysNoOther(t *testing.T) {
	net := natstest.Start(t)
	s := &gate{Store: newStore(t, net, 1)}
	startWorker(t, net, worker.Config{Store: s, Wait: 500 * time.Millisecond})
	createTags(t, net, s, 10, "hung", "fine")
	c := newClient(t, net)
	c.must("fine")

	open := s.close("hung")
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			begin := time.Now()
			_, err := c.ask("hung", 1, 5*time.Second)
			if !errors.Is(err, messages.ErrUnavailable) && !errors.Is(err, messages.ErrNoTag) {
				t.Errorf("hung: %v after %v, want 503", err, time.Since(begin))
			}
		})
	}
	for range 200 { // twenty segments: this tag's loads go on, too
		if _, err := c.ask("fine", 1, 5*time.Second); err != nil {
			t.Fatalf("fine: %v", err)
		}
	}
	requests.Wait()

	parked := make(chan error, 1)
	go func() {
		_, err := c.ask("hung", 1, 5*time.Second)
		parked <- err
	}()
	natstest.Eventually(t, "a parked request", func() bool { return parkedRequests(t, c) > 0 })
	open()
	if err := <-parked; err != nil {
		t.Errorf("after the store came back: %v", err)
	}
}

// TestThousandMisses: 1,000 concurrent requests for a cold tag lead to at most one
// load event at a time and two store writes.
func TestThousandMisses(t *testing.T) {
	net := natstest.Start(t)
	s := &gate{Store: newStore(t, net, 1)}
	startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	w := startWorker(t, net, worker.Config{Role: worker.RoleWorker, Wait: 10 * time.Second})
	createTags(t, net, s, 1000, "cold")
	c := newClient(t, net)
	awaitTags(t, w, 1)

	open := s.close("cold")
	js := newJetStream(t, net)
	stream, err := js.Stream(t.Context(), loads.StreamName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	var requests sync.WaitGroup
	for range 1000 {
		requests.Go(func() {
			if _, err := c.ask("cold", 1, 20*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	natstest.Eventually(t, "all requests to be parked", func() bool { return parkedRequests(t, c) == 1000 })
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.LastSeq != 1 {
		t.Errorf("%d load events published, want 1", info.State.LastSeq)
	}
	open()
	requests.Wait()
	if calls := s.calls.Load(); calls > 2 {
		t.Errorf("%d store writes, want at most 2", calls)
	}
}
