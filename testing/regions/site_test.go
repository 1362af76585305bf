package regions

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/pages"
	"github.com/idworker/idworker/testing/proxy"
)

// leaseTTL is the least that idworker allows.
const leaseTTL = "15s"

// The links that tests cut.
const (
	gatewayLink = "gateway"
	leafLink    = "leaf"
)

// region is a cluster, or a leaf node.
type region struct {
	t         testing.TB
	name      string
	addresses []string
	servers   []*program
}

// site is the site of docs/regions.md: regions a and b, joined by gateways, and
// a leaf node of a. JetStream runs in a, in the domain hub, and at the edge, in
// the domain edge.
type site struct {
	t           testing.TB
	links       map[string][]*proxy.Proxy
	dir         string
	pages       map[string]string // files of docs/regions.md
	a, b, edge  *region
	leafProxies []string
}

const secret = "secret-of-"

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, links: make(map[string][]*proxy.Proxy), dir: t.TempDir(), pages: make(map[string]string)}
	for _, b := range pages.Parse("docs/regions.md", readFile(t, "../../docs/regions.md")).Blocks {
		if b.File != "" {
			s.pages[b.File] = strings.Join(b.Lines, "\n") + "\n"
		}
	}
	return s
}

// behind returns the address of a proxy in front of an address.
func (s *site) behind(link, address string) string {
	s.t.Helper()
	p := proxy.Start(s.t, address)
	s.links[link] = append(s.links[link], p)
	return p.Addr()
}

// list is a list of URLs, as a variable of a configuration file.
func list(user string, addresses []string) string {
	urls := make([]string, len(addresses))
	for i, a := range addresses {
		urls[i] = fmt.Sprintf("\"nats://%s:%s%s@%s\"", user, secret, user, a)
	}
	return "[" + strings.Join(urls, ", ") + "]"
}

// start starts servers of a region, and returns when they are ready. Each file
// is a configuration file in a folder of the region.
func (s *site) start(name string, files map[string]string, main string, envs [][]string) *region {
	s.t.Helper()
	r := &region{t: s.t, name: name}
	dir := filepath.Join(s.dir, name)
	mkdir(s.t, dir)
	for file, text := range files {
		writeFile(s.t, filepath.Join(dir, file), text)
	}
	for i, env := range envs {
		address := freeport.Address(s.t)
		host, port, _ := strings.Cut(address, ":")
		env = append(env, "IDS_NATS_DATA="+s.t.TempDir(), "IDS_SYS_PASSWORD="+secret+"sys", "IDS_LISTEN="+address,
			fmt.Sprintf("IDS_SERVER_NAME=%s-%d", name, i+1))
		for _, u := range roles.Users() {
			env = append(env, u.PasswordVariable()+"="+secret+u.Name)
		}
		r.addresses = append(r.addresses, address)
		r.servers = append(r.servers, launch(s.t, natsServer, env,
			"-c", filepath.Join(dir, main), "-a", host, "-p", port))
	}
	for _, server := range r.servers {
		server.logs("Server is ready")
	}
	return r
}

// startGateways starts regions a and b. Each gateway is behind a proxy.
func (s *site) startGateways(serversOfA, serversOfB int) {
	s.t.Helper()
	gateways := map[string][]string{"a": addresses(s.t, serversOfA), "b": addresses(s.t, serversOfB)}
	proxies := make(map[string][]string)
	for region, all := range gateways {
		for _, address := range all {
			proxies[region] = append(proxies[region], s.behind(gatewayLink, address))
		}
	}
	urls := fmt.Sprintf("[{ name: a, urls: %s }, { name: b, urls: %s }]", list("gateway", proxies["a"]), list("gateway", proxies["b"]))
	conf := readFile(s.t, "../../nats.conf")
	cluster := replace(s.t, readFile(s.t, "../../cluster.conf"), `name: ids\b`, "name: $IDS_REGION")
	for name, all := range gateways {
		routes := addresses(s.t, len(all))
		envs := make([][]string, len(all))
		for i, address := range all {
			envs[i] = []string{
				"IDS_REGION=" + name, "IDS_CLUSTER_LISTEN=" + routes[i], "IDS_ROUTE_PASSWORD=" + secret + "route", "IDS_ROUTES=" + list("route", routes),
				"IDS_GATEWAY_LISTEN=" + address, "IDS_GATEWAY_ADVERTISE=" + proxies[name][i], "IDS_GATEWAY_PASSWORD=" + secret + "gateway", "IDS_GATEWAYS=" + urls,
				"IDS_EDGE_PASSWORD=" + secret + "edge",
			}
		}
		files := map[string]string{"cluster.conf": cluster, "gateway.conf": s.pages["gateway.conf"]}
		main := "include cluster.conf\ninclude gateway.conf\n"
		if name == "a" {
			files["nats.conf"] = inDomain(s.t, conf, "hub")
			files["leaf-hub.conf"] = s.pages["leaf-hub.conf"]
			main += "include leaf-hub.conf\n"
			for i := range envs {
				leaf := freeport.Address(s.t)
				envs[i] = append(envs[i], "IDS_LEAF_LISTEN="+leaf)
				s.leafProxies = append(s.leafProxies, s.behind(leafLink, leaf))
			}
		} else {
			files["nats.conf"] = replace(s.t, conf, `(?ms)^jetstream \{.*?^\}\n`, "")
		}
		files["main.conf"] = main
		r := s.start(name, files, "main.conf", envs)
		if name == "a" {
			s.a = r
		} else {
			s.b = r
		}
	}
}

// provision creates the hub's streams and buckets.
func (s *site) provision() {
	s.t.Helper()
	natstest.Eventually(s.t, "JetStream has a leader", func() bool {
		return slices.ContainsFunc(s.a.servers, func(p *program) bool {
			return strings.Contains(p.Stderr.String(), "cluster new metadata leader")
		})
	})
	s.a.must("admin", "provision", "--part", "ids", "--replicas", "3", "--lease-ttl", leaseTTL, "--outage", "1m")
}

// inDomain is nats.conf with a JetStream domain.
func inDomain(t testing.TB, conf, domain string) string {
	t.Helper()
	return replace(t, conf, `(?m)^jetstream \{\n`, "jetstream {\n  domain: "+domain+"\n")
}

// startEdge starts the leaf node, whose link is behind a proxy. The user far is
// for workers that keep everything in the hub.
func (s *site) startEdge() {
	s.t.Helper()
	conf := inDomain(s.t, readFile(s.t, "../../nats.conf"), "edge")
	conf = replaceFunc(s.t, conf, `(?ms)^      \{ user: worker,.*?^      \} \}\n`, func(user string) string {
		far := strings.NewReplacer("user: worker", "user: far", `"$JS.API.`, `"$JS.hub.API.`, `"$KV.`, `"$JS.hub.API.$KV.`)
		return user + far.Replace(user)
	})
	s.edge = s.start("edge", map[string]string{
		"nats.conf": conf, "leaf-edge.conf": s.pages["leaf-edge.conf"], "main.conf": "include nats.conf\ninclude leaf-edge.conf\n",
	}, "main.conf", [][]string{{"IDS_HUB=" + list("edge", s.leafProxies)}})
	s.edge.must("admin", "provision", "--part", "snowflake", "--lease-ttl", leaseTTL)
}

func addresses(t testing.TB, n int) (all []string) {
	t.Helper()
	for range n {
		all = append(all, freeport.Address(t))
	}
	return all
}

// userNamed is a user of nats.conf, or of the edge.
func userNamed(name string) roles.User {
	if name == "far" {
		name = "worker"
	}
	return roles.UserNamed(name)
}

// urls are the servers of a region, with a user.
func (r *region) urls(user string) string {
	var urls []string
	for _, a := range r.addresses {
		urls = append(urls, "nats://"+user+":"+secret+userNamed(user).Name+"@"+a)
	}
	return strings.Join(urls, ",")
}

func (r *region) env(user string) []string {
	return []string{"NATS_URL=" + r.urls(user), "IDWORKER_INBOX_PREFIX=" + userNamed(user).Inbox}
}

func (r *region) connect(user string) *nats.Conn {
	r.t.Helper()
	conn, err := nats.Connect(r.urls(user), nats.CustomInboxPrefix(userNamed(user).Inbox), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.Timeout(time.Minute), nats.ErrorHandler(nil))
	if err != nil {
		r.t.Fatalf("connect to region %s: %v", r.name, err)
	}
	r.t.Cleanup(conn.Close)
	return conn
}

// member is an idworker process.
type member struct {
	*program
	http string // address of its metrics
}

// launch starts a process of a user.
func (r *region) launch(user string, args ...string) *member {
	r.t.Helper()
	address := freeport.Address(r.t)
	args = append([]string{"serve", "--http", address}, args...)
	return &member{launch(r.t, idworker, r.env(user), args...), address}
}

// serve starts a process, and returns when it serves.
func (r *region) serve(user string, args ...string) *member {
	r.t.Helper()
	m := r.launch(user, args...)
	m.logs("\tserving\t")
	return m
}

// must runs a command until it succeeds: servers may still elect leaders.
func (r *region) must(user string, args ...string) string {
	r.t.Helper()
	var p *program
	natstest.Eventually(r.t, "idworker "+strings.Join(args, " ")+" succeeds", func() bool {
		p = launch(r.t, idworker, r.env(user), args...)
		<-p.Ended
		return p.Cmd.ProcessState.ExitCode() == 0
	})
	return p.Stdout.String()
}

// metric is the sum of a metric's series with a label, from the process.
func (m *member) metric(name, label string) (sum float64) {
	m.t.Helper()
	resp, err := http.Get("http://" + m.http + "/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, name) || !strings.Contains(line, label) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		if err != nil {
			m.t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// answered is the number of requests that processes have answered with IDs.
func answered(all ...*member) (n int64) {
	for _, m := range all {
		n += int64(m.metric("idworker_requests_total", `code="ok"`))
	}
	return n
}

func mkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// on does something to all proxies of a link.
func (s *site) on(link string, do func(*proxy.Proxy)) {
	for _, p := range s.links[link] {
		do(p)
	}
}

// cut cuts a link, until mend.
func (s *site) cut(link string) { s.on(link, (*proxy.Proxy).Refuse) }

// freeze makes a link forward nothing, while its connections stay open.
func (s *site) freeze(link string) {
	s.on(link, func(p *proxy.Proxy) { p.Lose(proxy.Both...) })
}

func (s *site) mend(link string) { s.on(link, (*proxy.Proxy).Mend) }
