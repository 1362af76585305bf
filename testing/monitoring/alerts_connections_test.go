package monitoring

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/proxy"
)

// connectionsStory is about processes and their NATS servers: a worker behind a bad network beside one with a good one,
// and two installations that meet.
func connectionsStory(t *testing.T) {
	s := newSite(t)
	network := proxy.Start(t, s.address)
	other := s.ready("all", "serve", "--new")
	s.run("provision", "--outage", "75s") // so that a worker ID ends soon after an alert
	worker := s.ready("worker", "serve", "--role", "worker", "--server", network.URL())
	s.run("tag", "create", "order", "--step", "100000")
	m := s.meet()
	asking := func() { s.ask("order", 20, 1) }
	s.warm("order", worker, other)
	s.healthy(75*time.Minute, func() { s.ask("order", 1, 1) })

	cutting, slow, turn := true, true, 0
	syncs := func(interval string) {
		s.stop(worker, other)
		s.nats.Kill()
		s.startNATS(interval)
		other = s.ready("all", "serve")
		worker = s.ready("worker", "serve", "--role", "worker", "--server", network.URL())
	}
	s.all([]fault{{
		alerts: []string{"Reconnects"},
		what:   "the network closes a worker's connections, again and again",
		cause:  func() {},
		during: func() {
			if cutting {
				network.Cut()
			}
		},
		cure: func() { cutting = false },
		pace: pace,
	}, {
		alerts: []string{"Overloaded"},
		what:   "again and again, requests wait in a worker's network for 3 s",
		cause:  func() {},
		during: func() {
			if turn++; slow && turn%6 < 3 {
				network.Delay(700*time.Millisecond, 0) // each way
			} else {
				network.Mend() // else the worker could not come back
			}
			asking()
		},
		cure: func() { slow = false },
		pace: time.Second,
	}, {
		alerts: []string{"NotConnected", "LeaseUnconfirmed", "LeaseEnds", "NoWorkerID"},
		what:   "the network of a worker is down",
		cause:  network.Refuse,
		cure:   network.Mend,
		pace:   500 * time.Millisecond,
	}, {
		alerts: []string{"NotSynced"},
		what:   "the NATS server was started without sync_interval: always",
		cause:  func() { syncs("10s") },
		cure:   func() { syncs("always") },
	}, {
		alerts: []string{"OtherInstallation"},
		what:   "a leaf node link joins two installations",
		cause:  m.link.Accept,
		cure:   m.link.Refuse,
		pace:   time.Second,
	}})
}

// meeting are two installations on NATS servers that a link may join.
type meeting struct {
	hub, leaf *natstest.Node
	link      *proxy.Proxy
}

// meet starts the two, without the link. Their servers do not sync, which is allowed here.
func (s *site) meet() (m meeting) {
	s.t.Helper()
	port := freeport.Get(s.t)
	m.hub = natstest.Start(s.t, func(o *server.Options) {
		o.JetStreamDomain = "hub"
		o.LeafNode.Host, o.LeafNode.Port, o.LeafNode.NoAdvertise = "127.0.0.1", port, true
	})
	m.link = proxy.Start(s.t, fmt.Sprint("127.0.0.1:", port))
	m.link.Refuse()
	m.leaf = natstest.Start(s.t, func(o *server.Options) {
		o.JetStreamDomain = "leaf"
		o.LeafNode.ReconnectInterval = 50 * time.Millisecond
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: m.link.Addr()}}}}
	})
	for _, node := range []*natstest.Node{m.hub, m.leaf} {
		s.launch("all", process.Program{Binary: idworker, Dir: s.dir}, "serve", "--server", node.URL(), "--new", "--allow-unsynced")
	}
	return m
}
