package natstest

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/freeport"
)

// Cluster is a JetStream cluster. Stop and restart its servers in turn, then
// call WaitReady.
type Cluster struct {
	Servers []*Node
}

// StartCluster runs a JetStream cluster of size servers (3 in nearly every
// test) and returns when it is ready. All of them stop when the test ends.
func StartCluster(t testing.TB, size int, opts ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{}
	// Routes must be set before the first server starts.
	ports, routes := make([]int, size), make([]*url.URL, size)
	for i := range ports {
		ports[i] = freeport.Get(t)
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])}
	}
	for i, port := range ports {
		all := append([]func(*server.Options){func(o *server.Options) {
			o.ServerName = fmt.Sprintf("n%d", i+1)
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}}, opts...)
		c.Servers = append(c.Servers, Start(t, all...))
	}
	c.WaitReady(t)
	return c
}

// Connect returns a connection that moves to another server when its own stops.
// It is closed when the test ends.
func (c *Cluster) Connect(t testing.TB, opts ...nats.Option) *nats.Conn {
	t.Helper()
	urls := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		urls[i] = s.URL()
	}
	nc := connect(t, urls, opts)
	for _, s := range c.Servers {
		s.mu.Lock()
		s.conns = append(s.conns, nc)
		s.mu.Unlock()
	}
	return nc
}

// WaitReady returns when every server that runs is up to date, streams and
// consumers included, and the cluster has a meta leader. It fails the test if
// that takes too long, as it does when no majority runs.
func (c *Cluster) WaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, "all running servers healthy, one meta leader", func() bool {
		leaders := 0
		for _, s := range c.Servers {
			srv := s.Running()
			if srv == nil {
				continue
			}
			if !srv.JetStreamIsCurrent() || srv.Healthz(&server.HealthzOptions{}).Status != "ok" {
				return false
			}
			if srv.JetStreamIsLeader() {
				leaders++
				if len(srv.JetStreamClusterPeers()) < c.running() {
					return false
				}
			}
		}
		return leaders == 1
	})
}

// StreamLeader is the running server that leads a stream of the default
// account, or nil while there is none.
func (c *Cluster) StreamLeader(stream string) *Node {
	for _, s := range c.Servers {
		if srv := s.Running(); srv != nil && srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return s
		}
	}
	return nil
}

// running counts the servers that are not stopped.
func (c *Cluster) running() (n int) {
	for _, s := range c.Servers {
		if s.Running() != nil {
			n++
		}
	}
	return n
}
