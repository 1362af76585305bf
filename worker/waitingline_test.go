package worker

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// TestWaitingLine: requests behind one that takes long are late after maxQueued, and
// not before; once they are through, nobody is.
func TestWaitingLine(t *testing.T) {
	conn := natstest.Start(t).Connect(t)
	gate := make(chan struct{})
	arrived := make(chan struct{}, 1)
	if _, err := conn.Subscribe("slow", func(*nats.Msg) {
		arrived <- struct{}{}
		<-gate
	}); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var line waitingLine
	ended := make(chan struct{})
	go func() { line.run(ctx, conn); close(ended) }()
	t.Cleanup(func() { <-ended })

	if err := conn.Publish("slow", nil); err != nil {
		t.Fatal(err)
	}
	<-arrived
	blocked := elapsed()
	var at time.Duration
	natstest.Eventually(t, "who waits is late", func() bool { at = elapsed(); return line.late() })
	if at-blocked < maxQueued-markEvery {
		t.Errorf("late after %v, want %v", at-blocked, maxQueued)
	}
	close(gate)
	natstest.Eventually(t, "nobody is late", func() bool { return !line.late() })
}

// TestWaitingLineWithoutServer: on a connection that is lost nobody waits, and nobody is
// late when it comes back.
func TestWaitingLineWithoutServer(t *testing.T) {
	srv := natstest.Start(t)
	conn := srv.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	var line waitingLine
	ended := make(chan struct{})
	go func() { line.run(ctx, conn); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	marks := func() int {
		line.mu.Lock()
		defer line.mu.Unlock()
		return len(line.marks)
	}
	natstest.Eventually(t, "marks are put", func() bool { return marks() > 0 })
	srv.Stop()
	natstest.Eventually(t, "no marks are left", func() bool { return !conn.IsConnected() && marks() == 0 })
	if line.late() {
		t.Error("requests are late without a server")
	}
}

// TestFrozenServerIsNoOverload: if nothing arrives after a mark was sent, the server is frozen
// or the network gone, and nobody is late. If something does, requests wait.
func TestFrozenServerIsNoOverload(t *testing.T) {
	var line waitingLine
	line.addMark(7)
	sent := elapsed()
	natstest.Eventually(t, "the mark is old", func() bool {
		line.addMark(7)
		return elapsed()-sent > maxQueued+markEvery
	})
	if line.late() {
		t.Error("nothing arrived, and yet requests are late")
	}
	if line.addMark(8); !line.late() {
		t.Error("a message arrived after more than a second, and yet no request is late")
	}
}
