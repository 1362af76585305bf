package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/natstest"
)

// TestWaitingLine: requests behind one that takes long are late after some time, and
// not before; once they are through, nobody is.
func TestWaitingLine(t *testing.T) {
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
	line := waitingLine{most: 200 * time.Millisecond}
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
	if at-blocked < line.most-markEvery {
		t.Errorf("late after %v, want %v", at-blocked, line.most)
	}
	close(gate)
	natstest.Eventually(t, "nobody is late", func() bool { return !line.late() })
}

// TestWaitingLineWithoutServer: on a connection that is lost nobody waits, and nobody is
// late when it comes back.
func TestWaitingLineWithoutServer(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var line waitingLine
		line.addMark(7)
		time.Sleep(maxQueued + markEvery)
		if line.addMark(7); line.late() {
			t.Error("nothing arrived, and yet requests are late")
		}
		if line.addMark(8); !line.late() {
			t.Error("a message arrived later, and yet no request is late")
		}
	})
}
