package e2e

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestJetStreamDomain: a worker at a leaf node keeps everything in the hub's JetStream.
func TestJetStreamDomain(t *testing.T) {
	t.Parallel()
	leafPort := freeport.Get(t)
	hub := natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "hub"
		o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", leafPort
	})
	leaf := natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "leaf"
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", leafPort)}}}}
	})
	natstest.Eventually(t, "the leaf node is connected", func() bool { return hub.Running().NumLeafNodes() == 1 })

	domain := []string{"--server", leaf.URL(), "--js-domain", "hub"}
	for _, role := range []string{"worker", "loader"} {
		startWorker(t, leaf.URL(), "--js-domain", "hub", "--role", role)
	}
	must(t, append([]string{"tag", "create", "order"}, domain...)...)
	natstest.Eventually(t, "an ID comes", func() bool {
		return run(t, append([]string{"get", "order"}, domain...)...).code == exitOK
	})
	must(t, append([]string{"workers"}, domain...)...)
	if n := streamCount(t, leaf); n != 0 {
		t.Errorf("%d streams at the leaf, want none", n)
	}
	if n := streamCount(t, hub); n < 5 {
		t.Errorf("%d streams in the hub, want all", n)
	}
}

func streamCount(t *testing.T, s *natstest.Server) int {
	t.Helper()
	info, err := s.Running().Jsz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return info.Streams
}
