package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// TestNobodyLoads: a worker whose loads nobody answers says so, once in the log, and wherever it is
// asked how it is; and when it is over. It knows whether a loader is there.
func TestNobodyLoads(t *testing.T) {
	t.Parallel()
	const (
		begins = "loads are not answered"
		ends   = "no load is unanswered any more"
	)
	ns := natstest.Start(t)
	address := freeAddress(t)
	w := startWorker(t, ns.URL(), "--role", "worker", "--http", address, "--wait", "500ms")
	must(t, "provision", "--server", ns.URL())
	must(t, "tag", "create", "--server", ns.URL(), "order", "--step", "10")
	conn := connect(t, ns.URL())
	startSteady(t, ns.URL(), "order", 10)

	says := func(what string) {
		t.Helper()
		natstest.Eventually(t, readyWithin, "the worker says "+what, func() bool {
			code, page := fetch(t, address, "/readyz")
			s := stats(t, conn, 1)[w.instance()]
			return code == 200 && strings.HasPrefix(page, "ready, but no loader answers") && strings.Contains(page, what) &&
				strings.Contains(s.NoLoader, what)
		})
		if _, metrics := fetch(t, address, "/metrics"); metric(metrics, "idworker_loads_unanswered_seconds") == "0" {
			t.Error("the metric says that loads are answered")
		}
	}
	isOver := func() {
		t.Helper()
		natstest.Eventually(t, readyWithin, "it is over", func() bool {
			_, page := fetch(t, address, "/readyz")
			_, metrics := fetch(t, address, "/metrics")
			return page == "ready\n" && stats(t, conn, 1)[w.instance()].NoLoader == "" &&
				metric(metrics, "idworker_loads_unanswered_seconds") == "0"
		})
	}
	logged := func(episodes, over int) {
		t.Helper()
		lines := w.stderr.String()
		if b, e := strings.Count(lines, begins), strings.Count(lines, ends); b != episodes || e != over {
			t.Errorf("%d lines say that loads are not answered, %d that they are; want %d and %d", b, e, episodes, over)
		}
	}
	says("no loader is running")
	logged(1, 0)
	loader := startWorker(t, ns.URL(), "--role", "loader")
	isOver()
	logged(1, 1)

	loader.pause()
	big := dial(t, ns.URL())
	go func() { // uses up what is in memory
		for {
			if _, err := big.NextN(t.Context(), "order", 10_000); err != nil && t.Context().Err() != nil {
				return
			}
		}
	}()
	says("a loader is there")
	logged(2, 1)
	loader.resume()
	isOver()
	logged(2, 2)
}

// TestWorkerAloneOnItsOwnServer: a worker that brings its NATS server along, and no loader, warns
// of that although nobody asks for IDs.
func TestWorkerAloneOnItsOwnServer(t *testing.T) {
	t.Parallel()
	const warning = "no loader has reserved any for it yet"
	s := startServer(t, t.TempDir(), "--role", "worker")
	began := time.Now()
	natstest.Eventually(t, readyWithin, "it warns", func() bool { return strings.Contains(s.stderr.String(), warning) })
	if early := time.Since(began) < 8*time.Second; early {
		t.Error("it warns before a loader had time to come")
	}
}
