package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

const (
	callerPatience = 5 * time.Second // how long callers wait for an ID
	patientRate    = 100             // how often a second each kind of ID is asked for
	clusterWithin  = 2 * time.Minute // how long elections, and catching up, may take
)

// TestKilledServerFailsNoRequest cuts off one server of three, and kills others, while the
// Go client asks for IDs of both kinds. No ID comes twice; and when a server is killed,
// whichever it is, no request fails.
func TestKilledServerFailsNoRequest(t *testing.T) {
	t.Parallel()
	c := startTrio(t)
	serve := func(urls ...string) {
		startWorker(t, strings.Join(urls, ","), "--replicas", "3", "--max-step", "1000", "--max-batch", "1000")
	}
	serve(c.urls()...)
	serve(c.urls()...)
	must(t, "tag", "create", "--server", c.urls()[0], "order", "--step", "1000")
	natstest.Eventually(t, clusterWithin, "there are three copies of everything", c.whole)

	c.warm(t, 2)
	load := startPatient(t, c.urls()...)
	load.await(t, patientRate)
	c.faultOfRoutes(t, load, serve)
	c.faultOfServer(t, load, c.countersLeader())
	c.faultOfServer(t, load, c.follower())
	load.finish()
	load.checkDistinct(t)
}

// faultOfRoutes cuts the last server off from the others. Its callers have a worker
// beside them, which goes on with what it has in memory.
func (c *trio) faultOfRoutes(t *testing.T, load *patient, serve func(...string)) {
	t.Helper()
	serve(c.urls()[2])
	c.warm(t, 3)
	aside := startPatient(t, c.urls()[2])
	aside.others = load
	aside.await(t, patientRate)
	what := "n3 cut off, " + c.leads(2)
	load.mark()
	aside.mark()
	for _, route := range c.routes {
		route.Refuse()
	}
	c.awaitLeaders(t, 2)
	natstest.Eventually(t, clusterWithin, "n3 knows that it is alone", func() bool {
		leader, _ := c.cluster(t, 2)
		return leader == ""
	})
	aside.await(t, 3*patientRate)
	for _, route := range c.routes {
		route.Accept()
	}
	natstest.Eventually(t, clusterWithin, "the server that was cut off is up to date", c.whole)
	aside.await(t, patientRate)
	aside.finish()
	_, _ = load.report(t, what+", callers elsewhere") // both workers may have been at n3
	_, _ = aside.report(t, what+", callers at n3")
	aside.checkDistinct(t)
}

// faultOfServer kills a server, and starts it again on its data.
func (c *trio) faultOfServer(t *testing.T, load *patient, victim int) {
	t.Helper()
	what := fmt.Sprintf("%s killed, %s", c.name(victim), c.leads(victim))
	load.mark()
	c.nodes[victim].server.kill()
	c.awaitLeaders(t, victim)
	load.await(t, 3*patientRate)
	c.nodes[victim].start()
	natstest.Eventually(t, clusterWithin, c.name(victim)+" is up to date again", c.whole)
	load.await(t, patientRate)
	if failed, first := load.report(t, what); failed > 0 {
		t.Errorf("%s: %d requests failed, the first with: %v", what, failed, first)
	}
}

// patient asks for IDs of both kinds as a service does, with the Go client.
type patient struct {
	kinds  map[string]*steady
	marks  map[string]int
	others *patient // whose IDs have to be different; may be nil
}

func startPatient(t *testing.T, urls ...string) *patient {
	t.Helper()
	conn := connect(t, strings.Join(urls, ","), nats.MaxReconnects(-1), nats.DontRandomize())
	client := messages.NewClient(conn, messages.DefaultPrefix)
	p := &patient{marks: make(map[string]int), kinds: map[string]*steady{
		"segment":   {next: func(ctx context.Context) (int64, error) { return client.Next(ctx, "order") }},
		"snowflake": {next: client.Snowflake},
	}}
	for _, s := range p.kinds {
		s.timeout, s.stop = callerPatience, make(chan struct{})
		s.start(t, patientRate)
	}
	return p
}

// await waits for so many more IDs of each kind.
func (p *patient) await(t *testing.T, n int) {
	t.Helper()
	for kind, s := range p.kinds {
		before := s.count()
		natstest.Eventually(t, clusterWithin, "more "+kind+" IDs", func() bool {
			ids, _ := split(s.since(before))
			return ids >= n
		})
	}
}

// mark says where the next report begins.
func (p *patient) mark() {
	for kind, s := range p.kinds {
		p.marks[kind] = s.count()
	}
}

// report logs what became of the requests since the mark, and returns how many failed,
// and with what the first.
func (p *patient) report(t *testing.T, what string) (failed int, first error) {
	t.Helper()
	for kind, s := range p.kinds {
		answers := s.since(p.marks[kind])
		_, errs := split(answers)
		failed += errs
		if at := firstError(answers); at >= 0 {
			first = answers[at].err
		}
		var took []time.Duration
		for _, a := range answers {
			took = append(took, a.received.Sub(a.sent))
		}
		slices.Sort(took)
		at := func(share float64) time.Duration {
			return took[int(share*float64(len(took)-1))].Round(10 * time.Microsecond)
		}
		t.Logf("%s: %s: %d requests, %d failed; p50 %v, p99 %v, p99.9 %v, the latest %v",
			what, kind, len(answers), errs, at(0.5), at(0.99), at(0.999), at(1))
	}
	return failed, first
}

// checkDistinct fails the test if an ID came twice, here or at the others.
func (p *patient) checkDistinct(t *testing.T) {
	t.Helper()
	for kind, s := range p.kinds {
		answers := s.since(0)
		if p.others != nil {
			answers = append(answers, p.others.kinds[kind].since(0)...)
		}
		var ids []messages.Range
		for _, a := range answers {
			if a.err == nil {
				ids = append(ids, messages.Range{First: a.id, Last: a.id})
			}
		}
		t.Logf("%s: %d IDs, looked at for duplicates", kind, checkDistinct(t, ids))
	}
}

func (p *patient) finish() {
	for _, s := range p.kinds {
		s.finish()
	}
}

// trio is a cluster of three real servers. The third reaches the others through proxies,
// and they cannot reach it past those, for it does not advertise its address.
type trio struct {
	nodes   []*production
	routes  []*dbtest.Proxy // from the third to the others
	monitor []string        // addresses of the servers' own pages
	js      jetstream.JetStream
	streams int // that there are; at first those of workers: IDS_LOAD, and the buckets config, tags, segments, workers, clock and owners
}

func startTrio(t *testing.T) *trio {
	t.Helper()
	c := &trio{streams: 7}
	var listen, monitor []string
	for range 3 {
		listen, monitor = append(listen, freeAddress(t)), append(monitor, freeAddress(t))
	}
	for _, address := range listen[:2] {
		c.routes = append(c.routes, dbtest.StartProxy(t, address))
	}
	routes := [][]string{{listen[1]}, {listen[0]}, {c.routes[0].Addr(), c.routes[1].Addr()}}
	for i := range 3 {
		conf := fmt.Sprintf(`
server_name: n%d
http: %q
jetstream { store_dir: %q, sync_interval: always }
cluster { name: trio, ping_interval: "500ms", ping_max: 3, listen: %q, advertise: "127.0.0.1:1", no_advertise: true, routes: ["nats://%s"] }
`, i+1, monitor[i], t.TempDir(), listen[i], strings.Join(routes[i], `", "nats://`))
		node := &production{t: t, conf: write(t, t.TempDir(), "nats.conf", conf), address: freeAddress(t)}
		node.start()
		c.nodes = append(c.nodes, node)
	}
	conn := connect(t, strings.Join(c.urls(), ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.DontRandomize())
	var err error
	if c.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(time.Second)); err != nil {
		t.Fatal(err)
	}
	c.monitor = monitor
	natstest.Eventually(t, clusterWithin, "the cluster has a leader and three members", func() bool {
		leader, size := c.cluster(t, 0)
		return leader != "" && size == 3
	})
	return c
}

// cluster is what a server knows about the cluster.
func (c *trio) cluster(t *testing.T, node int) (leader string, size int) {
	t.Helper()
	var jsz struct {
		Meta struct {
			Leader string
			Size   int `json:"cluster_size"`
		} `json:"meta_cluster"`
	}
	code, body := fetch(t, c.monitor[node], "/jsz")
	if err := json.Unmarshal([]byte(body), &jsz); code != 200 || err != nil {
		t.Fatalf("/jsz of %s: %d, %v", c.name(node), code, err)
	}
	return jsz.Meta.Leader, jsz.Meta.Size
}

// warm has each worker serve the tag, so that it has IDs in memory: a request goes to a
// worker at the caller's own server, if there is one.
func (c *trio) warm(t *testing.T, workers int) {
	t.Helper()
	conn := connect(t, c.urls()[0])
	natstest.Eventually(t, readyWithin, "all workers have IDs", func() bool {
		for _, url := range c.urls() {
			client := dial(t, url)
			for range 2 * workers {
				ctx, cancel := context.WithTimeout(t.Context(), callerPatience)
				_, _ = client.Next(ctx, "order")
				cancel()
			}
			client.conn.Close()
		}
		for _, s := range stats(t, conn, workers) {
			if !gives(s, "order") {
				return false
			}
		}
		return true
	})
}

func (c *trio) name(node int) string { return fmt.Sprintf("n%d", node+1) }

func (c *trio) urls() (urls []string) {
	for _, n := range c.nodes {
		urls = append(urls, "nats://"+n.address)
	}
	return urls
}

// infos are all streams as their leaders see them.
func (c *trio) infos() (all []*jetstream.StreamInfo) {
	list := c.js.ListStreams(c.nodes[0].t.Context())
	for info := range list.Info() {
		all = append(all, info)
	}
	return all
}

// whole reports whether every stream has a leader and two more copies that are current.
func (c *trio) whole() bool {
	all := c.infos()
	for _, s := range all {
		if s.Cluster == nil || s.Cluster.Leader == "" || len(s.Cluster.Replicas) != 2 {
			return false
		}
		for _, copy := range s.Cluster.Replicas {
			if !copy.Current || copy.Offline {
				return false
			}
		}
	}
	return len(all) == c.streams
}

// awaitLeaders waits until the others lead all that a server led.
func (c *trio) awaitLeaders(t *testing.T, without int) {
	t.Helper()
	natstest.Eventually(t, clusterWithin, "streams have leaders without "+c.name(without), func() bool {
		all := c.infos()
		return len(all) == c.streams && !slices.ContainsFunc(all, func(s *jetstream.StreamInfo) bool {
			return s.Cluster == nil || s.Cluster.Leader == "" || s.Cluster.Leader == c.name(without)
		})
	})
}

// leads says what a server leads.
func (c *trio) leads(node int) string {
	var names []string
	for _, s := range c.infos() {
		if s.Cluster.Leader == c.name(node) {
			names = append(names, s.Config.Name)
		}
	}
	return fmt.Sprintf("which led %v", names)
}

// leaderOf is the server that leads a stream.
func (c *trio) leaderOf(stream string) int {
	return slices.IndexFunc([]int{0, 1, 2}, func(i int) bool {
		return slices.ContainsFunc(c.infos(), func(s *jetstream.StreamInfo) bool {
			return s.Config.Name == stream && s.Cluster.Leader == c.name(i)
		})
	})
}

// countersLeader is the server that leads the bucket of counters.
func (c *trio) countersLeader() int {
	return c.leaderOf("KV_" + jetstreamstore.BucketName(messages.DefaultPrefix))
}

// follower is a server that does not.
func (c *trio) follower() int { return (c.countersLeader() + 1) % 3 }
