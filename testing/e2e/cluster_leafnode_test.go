package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// sites are a hub and a leaf node, each with a JetStream domain of its own:
// subjects cross the link, buckets do not.
type sites struct{ hub, leaf *natstest.Node }

func startSites(t *testing.T) sites {
	t.Helper()
	port := freeport.Get(t)
	var s sites
	s.hub = natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "hub"
		o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", port
	})
	s.leaf = natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "leaf"
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)}}}}
	})
	natstest.Eventually(t, "the leaf node is connected", func() bool {
		return s.hub.Running().NumLeafNodes() == 1 && s.leaf.Running().NumLeafNodes() == 1
	})
	return s
}

// TestLeafNode: an installation spans a hub and a leaf node, and keeps
// everything in the hub. A second installation that the first's subjects reach
// refuses to start.
func TestLeafNode(t *testing.T) {
	t.Parallel()
	s := startSites(t)
	t.Run("JetStream domain", s.domain)
	t.Run("second installation refuses", s.secondRefuses)
}

// domain: a worker at a leaf node keeps everything in the hub's JetStream.
func (s sites) domain(t *testing.T) {
	domain := []string{"--server", s.leaf.URL(), "--js-domain", "hub", "--prefix", "far"}
	for _, role := range []string{"worker", "loader"} {
		p := settings{}.launch(t, append([]string{"serve", "--role", role}, domain...)...)
		p.serving()
	}
	must(t, append([]string{"tag", "create", "order"}, domain...)...)
	settings{}.succeeds(t, append([]string{"get", "order"}, domain...)...)
	must(t, append([]string{"workers"}, domain...)...)
	if n := streamCount(t, s.leaf); n != 0 {
		t.Errorf("%d streams at the leaf, want none", n)
	}
	if n := streamCount(t, s.hub); n < 5 {
		t.Errorf("%d streams in the hub, want all", n)
	}
}

func streamCount(t *testing.T, s *natstest.Node) int {
	t.Helper()
	info, err := s.Running().Jsz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return info.Streams
}

// secondRefuses: subjects reach another installation, which serves. A process
// of any role refuses to start beside it, and names the remedies.
func (s sites) secondRefuses(t *testing.T) {
	first := startWorker(t, s.hub.URL())
	createTag(t, s.hub.URL(), "order")
	for _, role := range []string{"all", "worker", "loader"} {
		second := run(t, "serve", "--server", s.leaf.URL(), "--role", role)
		for _, part := range []string{"another installation answers on the same subjects", first.instance(), "(since 2", "--prefix", "--js-domain"} {
			if second.code != exitFailure || !strings.Contains(second.stderr, part) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s", role, second.code, exitFailure, part, second.stderr)
			}
		}
	}
	// The first installation continues, for callers on both sides; an
	// installation of another prefix is no neighbour.
	for _, url := range []string{s.hub.URL(), s.leaf.URL()} {
		dial(t, url).next(t, "order")
	}
	startWorker(t, s.leaf.URL(), "--prefix", "other")
	// The refused processes made an installation, which may serve once it is
	// alone, and then keeps even an older installation from starting.
	first.stop(syscall.SIGTERM)
	startWorker(t, s.leaf.URL(), "--role", "loader")
	if r := run(t, "serve", "--server", s.hub.URL()); r.code != exitFailure || !strings.Contains(r.stderr, "another installation") {
		t.Errorf("the older installation beside one that serves: exit code %d\n%s", r.code, r.stderr)
	}
}
