package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// TestClusterServesWithoutOneServer follows docs/nats-cluster.md, restarts the
// servers in turn, and kills one. Callers of the Go client see none of it.
func TestClusterServesWithoutOneServer(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	first := servers[0]
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.address)
	}
	awaitLeader(t, servers)
	first.as("admin").succeeds(t, "provision", "--part", "ids", "--replicas", "3")
	js := natstest.JetStream(t, first.connect("admin"))
	stream, err := js.Stream(t.Context(), "KV_"+register.BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("%d copies of the register, want 3", n)
	}
	clusterUser("worker", addresses).launch(t, "serve", "--role", "worker").serving()
	clusterUser("loader", addresses).launch(t, "serve", "--role", "loader").serving()
	first.must("admin", "tag", "create", "order", "--step", "10")
	get := func() {
		t.Helper()
		clusterUser("caller", addresses[1:]).succeeds(t, "get", "order", "100")
	}
	get()

	// The auditor reads from another account, wherever the leaders of the
	// streams are.
	first.as("orders-admin").succeeds(t, "provision", "--part", "enrich", "--replicas", "3")
	first.enrich(clusterUser("enricher", addresses), 3)
	for _, s := range servers {
		if r := s.must("orders-auditor", append([]string{"enrich", "verify", "--no-consumers"}, enrichFrom...)...); !strings.Contains(r.stdout, "10 events of ORDERS found in ") {
			t.Errorf("the auditor at %s did not read the target:\n%s", s.address, r.stdout)
		}
	}

	u := roles.UserNamed("caller")
	services := startServices(t, "nats://"+strings.Join(addresses, ",nats://"), "order", 2,
		nats.UserInfo(u.Name, password(u)), nats.CustomInboxPrefix(u.Inbox), nats.MaxReconnects(-1))
	services.more(20)
	for _, s := range servers {
		s.server.stop(syscall.SIGTERM)
		services.more(20)
		s.start()
		services.more(20)
	}
	first.server.kill()
	services.more(20)
	get()
	services.finish()
	services.ledger.check(t)
}

// awaitLeader waits until servers that have just started have a metadata leader.
func awaitLeader(t *testing.T, servers []*production) {
	t.Helper()
	natstest.Eventually(t, "the servers have a leader", func() bool {
		return slices.ContainsFunc(servers, func(s *production) bool {
			return strings.Contains(s.server.stderr.String(), "cluster new metadata leader")
		})
	})
}

// clusterUser is a user with the addresses of several servers.
func clusterUser(name string, addresses []string) settings {
	u := roles.UserNamed(name)
	var urls []string
	for _, a := range addresses {
		urls = append(urls, "nats://"+u.Name+":"+password(u)+"@"+a)
	}
	return settings{env: []string{"NATS_URL=" + strings.Join(urls, ","), "IDWORKER_INBOX_PREFIX=" + u.Inbox}}
}

// startCluster starts three servers with cluster.conf, on
// addresses of this machine.
func startCluster(t *testing.T) []*production {
	t.Helper()
	conf, err := os.ReadFile("../../cluster.conf")
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Abs(natsConf)
	if err != nil {
		t.Fatal(err)
	}
	const password = "secret-of-route"
	routes, urls := make([]string, 3), make([]string, 3)
	for i := range routes {
		routes[i] = freeport.Address(t)
		urls[i] = `"nats://route:` + password + "@" + routes[i] + `"`
	}
	dir := t.TempDir()
	if data, err := os.ReadFile(base); err != nil || os.WriteFile(filepath.Join(dir, "nats.conf"), data, 0o600) != nil {
		t.Fatal("copy nats.conf: ", err)
	}
	var servers []*production
	for i, route := range routes {
		path := filepath.Join(dir, fmt.Sprintf("ids-%d.conf", i+1))
		if err := os.WriteFile(path, conf, 0o600); err != nil {
			t.Fatal(err)
		}
		address := freeport.Address(t)
		p := &production{t: t, conf: path, address: address, data: t.TempDir(), env: []string{
			fmt.Sprintf("IDS_SERVER_NAME=ids-%d", i+1), "IDS_LISTEN=" + address,
			"IDS_CLUSTER_LISTEN=" + route, "IDS_ROUTE_PASSWORD=" + password, "IDS_ROUTES=[" + strings.Join(urls, ", ") + "]",
		}}
		p.start()
		servers = append(servers, p)
	}
	return servers
}
