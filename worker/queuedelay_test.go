package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// TestQueueDelay: requests behind a long one are late after some time, and not
// before; once they are through, no request is late.
func TestQueueDelay(t *testing.T) {
	t.Parallel()
	conn := NewAccount(t).Connect(t)
	gate := make(chan struct{})
	arrived := make(chan struct{}, 1)
	if _, err := conn.Subscribe("slow", func(*nats.Msg) {
		arrived <- struct{}{}
		<-gate
	}); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	delay := &queueDelay{limit: 200 * time.Millisecond}
	ended := make(chan struct{})
	go func() { delay.run(ctx, conn); close(ended) }()
	t.Cleanup(func() { <-ended })

	if err := conn.Publish("slow", nil); err != nil {
		t.Fatal(err)
	}
	<-arrived
	natstest.Eventually(t, "who waits is late", func() bool {
		delay.mu.Lock()
		defer delay.mu.Unlock()
		late := delay.late.Load()
		// The oldest probe stays while the request blocks.
		if late && time.Since(delay.probes[0]) < delay.limit {
			t.Errorf("late after %v, want %v", time.Since(delay.probes[0]), delay.limit)
		}
		return late
	})
	close(gate)
	natstest.Eventually(t, "no request is late", func() bool { return !delay.late.Load() })
}

// TestQueueDelayWithoutServer: on a lost connection no request waits, and none
// is late when it comes back.
func TestQueueDelayWithoutServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	conn := srv.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	delay := &queueDelay{limit: time.Second}
	ended := make(chan struct{})
	go func() { delay.run(ctx, conn); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	probes := func() int {
		delay.mu.Lock()
		defer delay.mu.Unlock()
		return len(delay.probes)
	}
	natstest.Eventually(t, "probes are put", func() bool { return probes() > 0 })
	srv.Stop()
	natstest.Eventually(t, "no probes are left", func() bool { return !conn.IsConnected() && probes() == 0 })
	if delay.late.Load() {
		t.Error("requests are late without a server")
	}
}

// TestFrozenServerIsNoOverload: if nothing arrives after a probe was sent, the
// server is frozen or the network is down, and no request is late. If anything
// arrives, requests wait.
func TestFrozenServerIsNoOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delay := &queueDelay{limit: time.Second}
		delay.add(7)
		time.Sleep(time.Second + probeEvery)
		if delay.add(7); delay.late.Load() {
			t.Error("nothing arrived, and yet requests are late")
		}
		if delay.add(8); !delay.late.Load() {
			t.Error("a message arrived later, and yet no request is late")
		}
	})
}

// TestSilence: a server that answers at times is not silent, one that does not
// is after some time.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delay := &queueDelay{limit: time.Second, lost: 2 * time.Second}
		const answers = 10
		began := time.Now()
		go func() {
			for range answers {
				time.Sleep(time.Second)
				delay.notePong(time.Now())
			}
		}()
		delay.awaitSilence(t.Context())
		if took := time.Since(began) - answers*time.Second - delay.lost; took < 0 || took > 2*probeEvery {
			t.Errorf("silent %v later than it was", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		delay.awaitSilence(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("ended after %v, want at the end of the context", took)
		}
	})
}
