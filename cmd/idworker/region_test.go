package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestJetStreamDomain: a process at a leaf node keeps everything in the hub's
// JetStream, and commands look there.
func TestJetStreamDomain(t *testing.T) {
	t.Parallel()
	port := freeport.Get(t)
	hub := natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "hub"
		o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", port
	})
	leaf := natstest.Start(t, func(o *server.Options) {
		o.JetStreamDomain = "leaf"
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)}}}}
	})
	natstest.Eventually(t, "the leaf node is connected", func() bool { return leaf.Running().NumLeafNodes() == 1 })
	s := &site{T: t, nats: leaf, url: leaf.URL()}
	// Repeated until the hub answers, which may take longer than a start may last.
	s.answered("provision --part ids --js-domain hub")
	s.serve("--js-domain", "hub")
	s.answered("tag create order --js-domain hub --if-missing")
	s.answered("get order")
	s.must("workers --js-domain hub")
	for net, want := range map[*natstest.Node]int{hub: 5, leaf: 0} {
		if info, err := net.Running().Jsz(nil); err != nil || info.Streams != want {
			t.Errorf("%d streams, want %d: %v", info.Streams, want, err)
		}
	}
}

// TestSnowflakeRegion: an installation for snowflake IDs only is provisioned,
// serves, and is in order without a register or load stream.
func TestSnowflakeRegion(t *testing.T) {
	t.Parallel()
	s, js := bareSite(t)
	provisioned := s.must("provision --part snowflake")
	s.serve("--role", "snowflake", "--layout", "twitter", "--datacenter", "3")
	s.answered("get --snowflake")
	for _, command := range []string{"doctor --role snowflake --layout twitter", "doctor --role admin --layout twitter", "status"} {
		found := s.at(command).stdout
		for _, wrong := range []string{"IDS_LOAD", "register", "none reports", "not ready"} {
			if strings.Contains(provisioned+found, wrong) {
				t.Errorf("%s reports %q:\n%s", command, wrong, found)
			}
		}
	}
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		if name == "IDS_LOAD" || name == "KV_ids_register" {
			t.Errorf("%s was created", name)
		}
	}
	if err := names.Err(); err != nil {
		t.Error(err)
	}
	natstest.Eventually(t, "the holder is listed", func() bool {
		return strings.Contains(s.must("workers --json"), `"datacenter": 3`)
	})
	for command, want := range map[string]string{
		"serve --role snowflake":                          "name it with --server",
		"serve --role snowflake --demo --server " + s.url: "--demo creates a tag",
	} {
		if r := s.run(strings.Fields(command)...); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v, want %q", command, r, want)
		}
	}
}
