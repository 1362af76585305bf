package messages

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/testing/natstest"
)

// TestPrefetchSingleFlight: while the workers refuse, all waiting callers share
// a request and its error.
func TestPrefetchSingleFlight(t *testing.T) {
	const callers = 100
	nc := natstest.Start(t).Connect(t)
	var silent atomic.Bool
	_, err := nc.Subscribe(DefaultPrefix.Segment("order"), func(req *nats.Msg) {
		if silent.Load() {
			return
		}
		reply := nats.NewMsg(req.Reply)
		reply.Header.Set(micro.ErrorCodeHeader, "404")
		if err := nc.PublishMsg(reply); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewClient(nc, DefaultPrefix).Prefetch("order", PrefetchConfig{MaxBatch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Next(t.Context()); !errors.Is(err, ErrNoTag) {
		t.Fatal(err)
	}

	silent.Store(true)
	errs := make(chan error, callers)
	for range callers {
		go func() {
			_, err := p.Next(t.Context())
			errs <- err
		}()
	}
	natstest.Eventually(t, "all callers wait", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waiters.n == callers
	})
	p.mu.Lock()
	if p.requests.n != 1 {
		t.Errorf("%d requests for callers who wait, want 1", p.requests.n)
	}
	p.mu.Unlock()
	silent.Store(false)
	for range callers {
		if err := <-errs; !errors.Is(err, ErrNoTag) {
			t.Error(err)
		}
	}
}
