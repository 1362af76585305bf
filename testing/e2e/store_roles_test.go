package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
)

// TestWorkerRoleNeedsNoStore runs workers that know no database, and loaders that do. Either
// can be added, and a loader removed or killed, without a failed request: memory holds IDs
// for some seconds.
func TestWorkerRoleNeedsNoStore(t *testing.T) {
	t.Parallel()
	eachDatabase(t, testWorkerRoleNeedsNoStore)
}

func testWorkerRoleNeedsNoStore(t *testing.T, d database) {
	t.Parallel()
	const tag, perSecond, step = "order", 400, "2000"
	db := d.with(t, "'"+tag+"', 1, "+step)
	ns := natstest.Start(t)
	small := []string{"--max-step", step, "--max-batch", step}
	worker := func() *process { return startWorker(t, ns.URL(), append(small, "--role", "worker")...) }
	loader := func() *process { return on(db.DSN()).startWorker(t, ns.URL(), append(small, "--role", "loader")...) }

	first, leaving := worker(), loader()
	knownToAll(t, ns.URL(), tag, 1)
	load := startSteady(t, ns.URL(), tag, perSecond)
	more := func() {
		t.Helper()
		target := load.count() + 2000
		natstest.Eventually(t, time.Minute, "IDs are handed out", func() bool { return load.count() >= target })
	}
	more()
	second, staying := worker(), loader()
	more()
	leaving.stop(syscall.SIGTERM)
	more()
	third := loader()
	staying.kill() // what it had under way is asked for again
	more()
	load.finish()
	load.ledger.check(t)
	answers := load.since(0)
	if at := firstError(answers); at >= 0 {
		_, errs := split(answers)
		t.Errorf("%d of %d requests failed, the first with: %v", errs, len(answers), answers[at].err)
	}

	all := stats(t, connect(t, ns.URL()), 2) // loaders answer nobody
	for _, w := range []*process{first, second} {
		s, ok := all[w.instance()]
		if !ok || s.Loads != nil || s.Store != "" || s.Grants.Installed == 0 {
			t.Errorf("a worker without a store reports %+v", s)
		}
	}
	if strings.Contains(third.stderr.String(), "\terror\t") {
		t.Errorf("the loader logged an error")
	}
}
