package regions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/process"
)

// binaries are the programs under test.
type binaries struct{ idworker, natsServer string }

func build(t *testing.T) (b binaries) {
	t.Helper()
	dir := t.TempDir()
	var err error
	if b.idworker, err = process.Build(dir, "idworker", process.Command); err != nil {
		t.Fatal(err)
	}
	if b.natsServer, err = process.Build(dir, "nats-server", process.NATSServer); err != nil {
		t.Fatal(err)
	}
	return b
}

// program is a running program that ends with the test, and then shows its log
// if the test failed.
type program struct {
	*process.Process
	t    *testing.T
	name string
}

func launch(t *testing.T, binary, name string, args ...string) *program {
	t.Helper()
	run, err := process.Settings{Binary: binary, Dir: t.TempDir()}.Launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{run, t, name}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s logged:\n%s", name, p.Stderr.Tail())
		}
	})
	return p
}

// logs waits until the program has logged a text.
func (p *program) logs(text string) {
	p.t.Helper()
	natstest.Eventually(p.t, p.name+" logs "+text, func() bool {
		return strings.Contains(p.Stderr.String(), text) || p.HasEnded()
	})
	if !strings.Contains(p.Stderr.String(), text) {
		p.t.Fatalf("%s ended with %v:\n%s", p.name, p.Cmd.ProcessState, p.Stderr.Tail())
	}
}

// link is a connection between servers that can be cut: a proxy for each server
// that listens.
type link []*dbtest.Proxy

func (l link) cut() {
	for _, p := range l {
		p.Refuse()
	}
}

func (l link) heal() {
	for _, p := range l {
		p.Accept()
	}
}

// sites are two clusters and leaf nodes, as docs/regions.md describes them:
//
//	leaf nodes ───────────── cluster a ── gateways ── cluster b
//	domains of their own     domain hub               no JetStream
type sites struct {
	t        *testing.T
	binaries binaries
	gateways link
	a, b     string // where clients connect
	leaves   []int  // ports of cluster a for leaf nodes
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// accounts are those of all servers. Beside gateways, leaf nodes need a system
// account that the configuration names.
const accounts = `
system_account: SYS
accounts {
  SYS { users: [{ user: sys, password: sys }] }
  IDS { users: [{ user: ids, password: ids }], jetstream: enabled }
}
no_auth_user: ids
`

// server starts a nats-server, and returns its URL.
func (s *sites) server(name, config string) (url string) {
	s.t.Helper()
	port := freeport.Get(s.t)
	path := filepath.Join(s.t.TempDir(), "nats.conf")
	config = fmt.Sprintf("server_name: %s\nlisten: %q\n%s%s", name, address(port), accounts, config)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	launch(s.t, s.binaries.natsServer, "nats-server "+name, "-c", path).logs("Server is ready")
	return "nats://" + address(port)
}

// jetStream is the configuration of a JetStream domain.
func (s *sites) jetStream(domain string) string {
	return fmt.Sprintf("jetstream { store_dir: %q, domain: %s, sync_interval: always }\n", s.t.TempDir(), domain)
}

// gateway is the configuration of a gateway that other clusters reach by a
// proxy. Servers learn each other's addresses, so all must be proxies'.
func gateway(cluster string, port int, proxy *dbtest.Proxy, other string, others link) string {
	var urls []string
	for _, p := range others {
		urls = append(urls, fmt.Sprintf("%q", "nats://"+p.Addr()))
	}
	return fmt.Sprintf("gateway { name: %s, listen: %q, advertise: %q, gateways: [{ name: %s, urls: [%s] }] }\n",
		cluster, address(port), proxy.Addr(), other, strings.Join(urls, ", "))
}

// startSites starts the clusters, and returns when they are joined.
func startSites(t *testing.T) *sites {
	t.Helper()
	s := &sites{t: t, binaries: build(t)}
	const size = 3 // of cluster a
	var routes, urls []string
	var gatewayPorts, routePorts []int
	for range size {
		s.leaves = append(s.leaves, freeport.Get(t))
		gatewayPorts, routePorts = append(gatewayPorts, freeport.Get(t)), append(routePorts, freeport.Get(t))
		routes = append(routes, fmt.Sprintf("%q", "nats://"+address(routePorts[len(routePorts)-1])))
		s.gateways = append(s.gateways, dbtest.StartProxy(t, address(gatewayPorts[len(gatewayPorts)-1])))
	}
	gatewayB, routeB := freeport.Get(t), freeport.Get(t)
	proxyB := dbtest.StartProxy(t, address(gatewayB))
	s.b = s.server("b1", fmt.Sprintf("cluster { name: b, listen: %q }\n", address(routeB))+
		gateway("b", gatewayB, proxyB, "a", s.gateways))
	for i := range size {
		urls = append(urls, s.server(fmt.Sprintf("a%d", i+1), s.jetStream("hub")+
			fmt.Sprintf("cluster { name: a, listen: %q, routes: [%s] }\n", address(routePorts[i]), strings.Join(routes, ", "))+
			fmt.Sprintf("leafnodes { listen: %q, no_advertise: true }\n", address(s.leaves[i]))+
			gateway("a", gatewayPorts[i], s.gateways[i], "b", link{proxyB})))
	}
	s.a = strings.Join(urls, ",")
	s.gateways = append(s.gateways, proxyB)
	return s
}

// leaf starts a leaf node with a JetStream domain of its own, and its link to
// cluster a.
func (s *sites) leaf(domain string) (url string, to link) {
	s.t.Helper()
	var urls []string
	for _, port := range s.leaves {
		proxy := dbtest.StartProxy(s.t, address(port))
		to, urls = append(to, proxy), append(urls, fmt.Sprintf("%q", "nats://ids:ids@"+proxy.Addr()))
	}
	return s.server(domain, s.jetStream(domain)+
		fmt.Sprintf("leafnodes { reconnect: 1s, remotes: [{ urls: [%s], account: IDS }] }\n", strings.Join(urls, ", "))), to
}

// idworker runs a command to its end.
func (s *sites) idworker(args ...string) (code int, out string) {
	s.t.Helper()
	p := launch(s.t, s.binaries.idworker, "idworker "+strings.Join(args, " "), args...)
	natstest.Eventually(s.t, p.name+" ends", p.HasEnded)
	return p.Cmd.ProcessState.ExitCode(), p.Stdout.String() + p.Stderr.String()
}

// serve starts a process, and returns when it serves.
func (s *sites) serve(url string, datacenter int, args ...string) *program {
	s.t.Helper()
	p := s.start(url, datacenter, args...)
	p.logs("\tserving\t")
	return p
}

func (s *sites) start(url string, datacenter int, args ...string) *program {
	s.t.Helper()
	args = append([]string{
		"serve", "--server", url, "--layout", "twitter", "--datacenter", fmt.Sprint(datacenter),
		"--lease-ttl", "15s",
	}, args...)
	return launch(s.t, s.binaries.idworker, "idworker "+strings.Join(args, " "), args...)
}

func (s *sites) connect(url string) *nats.Conn {
	s.t.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(nats.DefaultReconnectWait/10))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}
