package e2e

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// A tag becomes strict when every worker knows, and not before: one of an older version and one that is
// paused are named, with what to do.
func TestBecomingStrict(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	startWorker(t, ns.URL())
	as := settings{env: []string{"NATS_URL=" + ns.URL()}}
	refuses := func(code int, args []string, want ...string) {
		t.Helper()
		r := as.run(t, args...)
		for _, w := range want {
			if r.code != code || !strings.Contains(r.stderr, w) {
				t.Errorf("idworker %s (%d): %q, want %d and %q", strings.Join(args, " "), r.code, r.stderr, code, w)
			}
		}
	}
	create := func(tag string, more ...string) []string {
		return append([]string{"tag", "create", tag, "--order", "strict"}, more...)
	}

	startOlder := func() micro.Service {
		old, err := micro.AddService(ns.Connect(t), micro.Config{
			Name: worker.ServiceName, Version: "0.0.9", Metadata: map[string]string{"prefix": "ids", "instance": "OLD"},
			Endpoint: &micro.EndpointConfig{Subject: "old", Handler: micro.HandlerFunc(func(micro.Request) {})},
		})
		if err != nil {
			t.Fatal(err)
		}
		return old
	}
	const doctored = "warn  workers: workers of an older version answer strict tags out of order: OLD; stop them, or upgrade them\n"
	old := startOlder()
	if r := as.run(t, "doctor"); strings.Contains(r.stdout, doctored) {
		t.Errorf("doctor, without strict tags:\n%s", r.stdout)
	}
	refuses(exitTryLater, create("order"), "of an older version", "OLD", "upgrade them first")
	refuses(exitNoTag, []string{"get", "order"}, "no such tag")
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	as.mustRun(t, create("order")...)
	refuses(1, create("order"), "exists")
	if got := strings.TrimSpace(as.mustRun(t, "get", "order").stdout); got != "1" {
		t.Errorf("the first ID: %s", got)
	}

	old = startOlder()
	if r := as.run(t, "doctor"); !strings.Contains(r.stdout, doctored) {
		t.Errorf("doctor, with strict tags:\n%s%s", r.stdout, r.stderr)
	}
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}

	paused := startWorker(t, ns.URL(), "--role", "worker")
	paused.pause()
	natstest.Eventually(t, "the paused one is missed", func() bool {
		r := as.run(t, create("invoice")...)
		return r.code == exitTryLater && strings.Contains(r.stderr, "--ended "+paused.instance())
	})
	refuses(exitNoTag, []string{"get", "invoice"}, "no such tag")
	as.mustRun(t, create("invoice", "--ended", paused.instance())...)
	as.mustRun(t, create("another")...) // it was said once
	paused.resume()
	as.mustRun(t, "tag", "rm", "invoice", "--yes")
	as.mustRun(t, "tag", "create", "invoice", "--first", "2000")
	ls := as.mustRun(t, "tag", "ls").stdout
	if !strings.Contains(ls, "order") || !strings.Contains(ls, "strict") || strings.Count(ls, "trend") != 1 {
		t.Errorf("tag ls after one was created again, as an ordinary one:\n%s", ls)
	}
}
