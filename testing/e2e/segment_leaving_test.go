package e2e

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

// parkRequests starts a worker without a loader, has it park requests, tells it to stop, and
// returns with the answers still to come.
func parkRequests(t *testing.T, n int) (url string, leaving *process, answers chan error) {
	t.Helper()
	const tag = "order"
	url = natstest.Start(t, syncAlways).URL()
	first := startWorker(t, url)
	createTag(t, url, tag)
	first.stop(syscall.SIGTERM)

	leaving = startWorker(t, url, "--role", "worker", "--wait", "5s")
	client := dial(t, url)
	answers = make(chan error, n)
	for range n {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_, err := client.Next(ctx, tag)
			answers <- err
		}()
	}
	conn := connect(t, url)
	natstest.Eventually(t, readyWithin, "all requests are parked", func() bool {
		for _, s := range stats(t, conn, 1) {
			return s.Parked == n
		}
		return false
	})
	leaving.signal(syscall.SIGTERM)
	return url, leaving, answers
}

// TestLeavingWithParkedRequests stops a worker that holds requests for which there
// are no IDs. Each gets its error at its deadline, and none is left without answer.
func TestLeavingWithParkedRequests(t *testing.T) {
	t.Parallel()
	const n = 50
	_, leaving, answers := parkRequests(t, n)
	for range n {
		if err := <-answers; !errors.Is(err, messages.ErrUnavailable) {
			t.Errorf("answer %v, want a 503", err)
		}
	}
	if code := leaving.wait(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestLeavingWorkerStillGetsGrants starts a loader after the worker was told to stop:
// the requests that it holds get their IDs.
func TestLeavingWorkerStillGetsGrants(t *testing.T) {
	t.Parallel()
	const n = 50
	url, leaving, answers := parkRequests(t, n)
	startWorker(t, url, "--role", "loader")
	for range n {
		if err := <-answers; err != nil {
			t.Errorf("answer %v, want an ID", err)
		}
	}
	if code := leaving.wait(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
