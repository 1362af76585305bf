package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/natstest"
)

// The usual outage is longer than the TTL of the leases, after which a process of
// version 0.2.0 had no worker ID.
var (
	outage  = flag.Duration("e2e.outage", 45*time.Second, "how long two of three servers are away")
	outages = flag.Int("e2e.outages", 1, "how often they are")
)

// TestOutlivesJetStream kills two of three servers, in turn, for longer than a
// lease lasts. Two workers, which an installation with the default outage has,
// answer every request for a snowflake ID meanwhile and afterwards, by NATS and by
// HTTP, with the worker IDs that they had, and no ID comes twice.
func TestOutlivesJetStream(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.address)
	}
	awaitLeader(t, servers)
	admin := clusterUser("admin", addresses)
	if said := admin.succeeds(t, "provision", "--part", "ids", "--replicas", "3").stdout; !strings.Contains(said, "1h0m0s") {
		t.Errorf("a new installation does not name its outage:\n%s", said)
	}
	s := &outageSite{t: t, ids: make(map[int64]bool)}
	defer s.finish()
	var workers []*process
	var apis []string
	for range 2 {
		api := freeport.Address(t)
		workers = append(workers, clusterUser("worker", addresses).launch(t, "serve", "--role", "worker", "--api", api))
		apis = append(apis, api)
	}
	for i, w := range workers {
		w.serving()
		natstest.Eventually(t, "the worker has a worker ID", func() bool { return strings.Contains(w.stderr.String(), "worker ID claimed") })
		s.start("http "+strconv.Itoa(i), s.byHTTP(apis[i]))
	}
	u := roles.UserNamed("caller")
	for _, server := range servers { // a connection to each, because one of them survives
		conn := connect(t, "nats://"+server.address, nats.UserInfo(u.Name, password(u)), nats.CustomInboxPrefix(u.Inbox),
			nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
		s.clients = append(s.clients, messages.NewClient(conn, messages.DefaultPrefix))
	}
	s.start("nats", s.byNATS)
	s.more(20)
	for round := range *outages {
		survivor := round % len(servers)
		s.survivor.Store(int64(survivor))
		for i, server := range servers {
			if i != survivor {
				server.server.kill()
			}
		}
		for over := time.Now().Add(*outage); time.Now().Before(over) && !t.Failed(); {
			time.Sleep(100 * time.Millisecond)
		}
		for i, server := range servers {
			if i != survivor {
				server.start()
			}
		}
		for _, w := range workers {
			natstest.Eventually(t, "the worker ID is confirmed", func() bool { return w.says("worker ID confirmed again") > round || t.Failed() })
		}
		s.more(20)
		t.Logf("outage %d, of %v: %s", round+1, *outage, s.figures())
	}
	s.finish()
	t.Log(s.figures())
	for _, w := range workers {
		if n := w.says("worker ID given up"); n > 0 {
			t.Errorf("a worker gave its worker ID up %d times", n)
		}
		w.stop(syscall.SIGTERM)
	}
}

// outageSite has callers that request a snowflake ID at a time.
type outageSite struct {
	t        *testing.T
	clients  []*messages.Client // by server
	survivor atomic.Int64       // the server that the next request goes to
	stop     atomic.Bool
	wg       sync.WaitGroup

	mu      sync.Mutex
	ids     map[int64]bool
	callers []*outageCaller
}

type outageCaller struct {
	name             string
	requests, failed int
	longest          time.Duration
	workers          map[int64]int // IDs by worker ID
}

// start starts a caller, with a request each 50 ms. A caller by HTTP has one
// worker, so that its worker ID has to stay the same.
func (s *outageSite) start(name string, ask func() (int64, error)) {
	c := &outageCaller{name: name, workers: make(map[int64]int)}
	s.mu.Lock()
	s.callers = append(s.callers, c)
	s.mu.Unlock()
	s.wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ; !s.stop.Load(); <-tick.C {
			began := time.Now()
			id, err := ask()
			s.add(c, id, err, time.Since(began))
		}
	})
}

func (s *outageSite) add(c *outageCaller, id int64, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requests++
	c.longest = max(c.longest, took)
	if err != nil {
		c.failed++
		s.t.Errorf("%s: request %d failed: %v", c.name, c.requests, err)
		return
	}
	if s.ids[id] {
		s.t.Errorf("DUPLICATE: snowflake ID %d", id)
	}
	s.ids[id] = true
	worker := snowflake.Default().WorkerID(snowflake.ID(id))
	if c.workers[worker]++; len(c.workers) > 1 && c.workers[worker] == 1 && c.name != "nats" {
		s.t.Errorf("%s: the worker ID changed to %d", c.name, worker)
	}
}

func (s *outageSite) byNATS() (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
	defer cancel()
	ranges, err := s.clients[s.survivor.Load()].SnowflakeN(ctx, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

// byHTTP sends each request once: no other worker answers it.
func (s *outageSite) byHTTP(api string) func() (int64, error) {
	client := newHTTPClient(s.t)
	return func() (int64, error) { return snowflakeByHTTP(s.t, client, api) }
}

// snowflakeByHTTP requests a snowflake ID. An error has the answer.
func snowflakeByHTTP(t testing.TB, client *http.Client, api string) (int64, error) {
	a, err := askHTTP(t, client, http.MethodGet, "http://"+api+"/v1/snowflake", "Accept", "text/plain")
	if err != nil {
		return 0, err
	}
	if a.status != http.StatusOK {
		return 0, fmt.Errorf("%d: %s", a.status, a.body)
	}
	return strconv.ParseInt(strings.TrimSpace(a.body), 10, 64)
}

// more waits until each caller was answered some more requests.
func (s *outageSite) more(n int) {
	s.t.Helper()
	var targets []int
	count := func(i int) int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.callers[i].requests
	}
	for i := range s.callers {
		targets = append(targets, count(i)+n)
	}
	for i, target := range targets {
		natstest.Eventually(s.t, "requests are answered", func() bool { return count(i) >= target || s.t.Failed() })
	}
}

func (s *outageSite) figures() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, c := range s.callers {
		all = append(all, fmt.Sprintf("%s: %d requests, %d failed, the longest %v, by worker ID %v",
			c.name, c.requests, c.failed, c.longest.Round(time.Millisecond), c.workers))
	}
	return fmt.Sprintf("%d IDs; %s", len(s.ids), strings.Join(all, "; "))
}

// finish stops the callers, and waits for their last answers.
func (s *outageSite) finish() {
	s.stop.Store(true)
	s.wg.Wait()
}
