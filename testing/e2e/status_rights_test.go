package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// TestStatusWithTheRightsOfEachRole: with nats.conf, an administrator's status, and the pages of a worker and of a loader,
// show all processes. What a role's user may not read is named, with the right that it lacks, and nothing else is missing. Who
// only asks for IDs sees nothing.
func TestStatusWithTheRightsOfEachRole(t *testing.T) {
	t.Parallel()
	p := startProduction(t, "../../nats.conf")
	p.provision()
	p.must("admin", "tag", "create", "order")
	worker, loader := freeAddress(t), freeAddress(t)
	p.serve("worker", "--role", "worker", "--http", worker)
	p.serve("loader", "--role", "loader", "--http", loader)

	var s struct {
		Totals struct{ Workers, Loaders int }
		Unread []struct{ What, Why string }
	}
	if err := json.Unmarshal([]byte(p.must("admin", "status", "--json").stdout), &s); err != nil {
		t.Fatal(err)
	}
	if s.Totals.Workers != 1 || s.Totals.Loaders != 1 || len(s.Unread) != 1 || s.Unread[0].What != "enrichments" {
		t.Errorf("an administrator sees %+v, want a worker and a loader, and all but enrichments, which have another account", s)
	}
	for address, lacks := range map[string][]string{
		worker: {"enrichments"},
		loader: {"enrichments", "which workers there should be", "worker IDs"},
	} {
		var unknown []string
		natstest.Eventually(t, "the page shows both", func() bool {
			_, page := fetch(t, address, "/")
			unknown = between(page, "not known: ", "<")
			return strings.Contains(page, "<dt>workers answered</dt><dd>1</dd>") && strings.Contains(page, "<dt>loaders answered</dt><dd>1</dd>") &&
				strings.Contains(page, "lacks a right for it: the user may not publish $JS.API.")
		})
		if !slices.Equal(unknown, lacks) {
			t.Errorf("not known are %q, want %q", unknown, lacks)
		}
	}
	if r := p.as("caller").run(t, "status"); r.code != 0 || !strings.Contains(r.stdout, "not known: reports of workers and loaders") || strings.Contains(r.stdout, "nobody answers requests") {
		t.Errorf("who may not ask is told %d %q, want that it is not known", r.code, r.stdout)
	}
}

// between are the texts after each start, up to the next end.
func between(s, start, end string) (all []string) {
	for _, part := range strings.Split(s, start)[1:] {
		text, _, _ := strings.Cut(part, end)
		all = append(all, text)
	}
	return all
}

// TestStatusPageWithoutNATS: a process that has lost its server still shows itself, and says that it knows nothing of others.
func TestStatusPageWithoutNATS(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	address := freeAddress(t)
	w := startWorker(t, ns.URL(), "--http", address)
	natstest.Eventually(t, "it is the only one, and ready", func() bool {
		code, page := fetch(t, address, "/")
		return code == 200 && strings.Contains(page, w.instance()) && strings.Contains(page, `<span class="good">ready</span>`)
	})
	ns.Stop()
	natstest.Eventually(t, "it says that NATS is gone", func() bool {
		code, page := fetch(t, address, "/")
		return code == 200 && strings.Contains(page, w.instance()) && strings.Contains(page, "not known: all but this process") &&
			strings.Contains(page, "not connected to NATS")
	})
	ns.Restart()
	natstest.Eventually(t, "all is well again", func() bool {
		_, page := fetch(t, address, "/")
		return !strings.Contains(page, "not known: ") && strings.Contains(page, `<span class="good">ready</span>`)
	})
}

// TestStatusIsWatched: a status is shown again and again until a signal ends it, and follows what happens.
func TestStatusIsWatched(t *testing.T) {
	t.Parallel()
	ns := natstest.Start(t)
	first := startWorker(t, ns.URL())
	watch := settings{}.launch(t, "status", "--server", ns.URL(), "--watch")
	natstest.Eventually(t, "one worker is shown", func() bool {
		return strings.Contains(watch.stdout.String(), "workers 1, loaders 1") && strings.Contains(watch.stdout.String(), first.instance())
	})
	second := startWorker(t, ns.URL(), "--role", "worker")
	natstest.Eventually(t, "two workers are shown", func() bool { return strings.Contains(watch.stdout.String(), "workers 2, loaders 1") })
	second.kill()
	natstest.Eventually(t, "one of them does not answer", func() bool { return strings.Contains(watch.stdout.String(), "workers 1 of 2") })
	watch.stop(syscall.SIGINT)
	for _, bad := range []string{"--tags=-1", "--tags=100001", "--sort=newest"} {
		if r := run(t, "status", "--server", ns.URL(), bad); r.code != exitUsage {
			t.Errorf("%s: exit code %d, want %d: %s", bad, r.code, exitUsage, r.stderr)
		}
	}
}
