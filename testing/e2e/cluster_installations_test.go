package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// sites are a hub and a leaf node, each with a JetStream domain of its own: subjects cross
// the link, buckets do not.
type sites struct {
	hub, leaf *natstest.Server
	link      *dbtest.Proxy // between the two
}

func startSites(t *testing.T) sites {
	t.Helper()
	port := freeport.Get(t)
	var s sites
	s.hub = natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "hub"
		o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", port
		o.LeafNode.NoAdvertise = true // or the leaf node would come by another way once the link is cut
	})
	s.link = dbtest.StartProxy(t, fmt.Sprintf("127.0.0.1:%d", port))
	s.leaf = natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "leaf"
		o.LeafNode.ReconnectInterval = 100 * time.Millisecond
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: s.link.Addr()}}}}
	})
	s.awaitLink(t, 1)
	return s
}

// awaitLink waits until there is a link, or none.
func (s sites) awaitLink(t *testing.T, links int) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%d leaf node links", links), func() bool {
		return s.hub.Running().NumLeafNodes() == links && s.leaf.Running().NumLeafNodes() == links
	})
}

func (s sites) cut(t *testing.T) {
	t.Helper()
	s.link.Refuse()
	s.awaitLink(t, 0)
}

func (s sites) restore(t *testing.T) {
	t.Helper()
	s.link.Accept()
	s.awaitLink(t, 1)
}

// TestSecondInstallationRefuses: subjects reach another installation, which serves. A process
// of any role refuses to start beside it, and says what can be done.
func TestSecondInstallationRefuses(t *testing.T) {
	t.Parallel()
	s := startSites(t)
	first := startWorker(t, s.hub.URL())
	createTag(t, s.hub.URL(), "order")
	for _, role := range []string{"all", "worker", "loader"} {
		second := run(t, "serve", "--server", s.leaf.URL(), "--role", role)
		if second.code != exitFailure {
			t.Errorf("%s: exit code %d, want %d\n%s", role, second.code, exitFailure, second.stderr)
		}
		for _, part := range []string{"another installation answers on the same subjects", first.instance(), "(since 2", "--prefix", "--js-domain"} {
			if !strings.Contains(second.stderr, part) {
				t.Errorf("%s: no %q in:\n%s", role, part, second.stderr)
			}
		}
	}
	// The first one goes on, for callers on both sides; and one of another prefix is no neighbour.
	for _, url := range []string{s.hub.URL(), s.leaf.URL()} {
		if _, err := dial(t, url).Next(t.Context(), "order"); err != nil {
			t.Errorf("an ID of the first installation, at %s: %v", url, err)
		}
	}
	startWorker(t, s.leaf.URL(), "--prefix", "other")
	// The refused ones made an installation, which is free to serve once it is alone, and then
	// keeps even an older one from starting.
	first.stop(syscall.SIGTERM)
	startWorker(t, s.leaf.URL(), "--role", "loader")
	if r := run(t, "serve", "--server", s.hub.URL()); r.code != exitFailure || !strings.Contains(r.stderr, "another installation") {
		t.Errorf("the older installation beside one that serves: exit code %d\n%s", r.code, r.stderr)
	}
}

// TestLeavingTakesNoMoreRights: with the users of nats.conf, a worker and a loader find out
// about an older installation, leave, and can be asked why.
func TestLeavingTakesNoMoreRights(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	processes := []*process{net.serve("loader", "--role", "loader"), net.serve("worker", "--role", "worker")}
	other := net.connect("loader") // a process of the other installation has the same rights
	answers, err := other.SubscribeSync("ids.hello.W0")
	if err == nil {
		err = other.Publish("ids.hello", []byte(`{"installation":"older","created":"2001-01-01T00:00:00Z","instance":"W0","serving":true}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answers.NextMsg(natstest.Patience); err != nil {
		t.Errorf("no answer: %v", err)
	}
	// Both are of one installation, so one of them got the hello. The other one gets an answer
	// to its own, as from one process of the older installation.
	for _, p := range processes {
		answer := "ids.hello." + p.instance()
		if err := other.Publish(answer, []byte(`{"installation":"older","created":"2001-01-01T00:00:00Z","instance":"W0","serving":true}`)); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, p.name+" leaves", func() bool { return strings.Contains(p.stderr.String(), "leaving the queue groups") })
	}
	all := stats(t, net.connect("admin"), 1)
	if mine := all[processes[1].instance()]; !strings.Contains(mine.LeftFor, "older (since 2001-01-01") {
		t.Errorf("STATS: %+v", all)
	}
	if refused := net.violations(); len(refused) > 0 {
		t.Errorf("the server refused:\n%s", strings.Join(refused, ""))
	}
}
