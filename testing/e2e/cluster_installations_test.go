package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/messages"
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
	natstest.Eventually(t, readyWithin, fmt.Sprintf("%d leaf node links", links), func() bool {
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

// leaveWithin is how long two installations may both serve once they are linked.
const leaveWithin = 10 * time.Second

// TestInstallationsLinkedLater: the link between two installations is restored while both
// serve. All processes of the younger one leave, in any role, and say so; the older one
// serves on. Without the link the younger one comes back by itself.
//
// IDs that both handed out from the moment of the link until the last one left may be the
// same. They are counted here. Afterwards there is none that both hand out.
func TestInstallationsLinkedLater(t *testing.T) {
	t.Parallel()
	s := startSites(t)
	s.cut(t)
	const two = "41:1ms/s21/w1@1735689600000" // worker IDs at each site, so that both have the same
	older := []*process{startWorker(t, s.hub.URL(), "--layout", two), startWorker(t, s.hub.URL(), "--layout", two)}
	createTag(t, s.hub.URL(), "order", "--step", "100000")
	health, health2 := freeAddress(t), freeAddress(t)
	younger := []*process{
		startWorker(t, s.leaf.URL(), "--layout", two, "--http", health),
		startWorker(t, s.leaf.URL(), "--layout", two, "--role", "worker", "--http", health2),
		startWorker(t, s.leaf.URL(), "--role", "loader"),
	}
	createTag(t, s.leaf.URL(), "order", "--step", "100000")
	knownToAll(t, s.hub.URL(), "order", len(older))
	knownToAll(t, s.leaf.URL(), "order", 2)

	// One ledger for callers at both sides: as they see it, there is one sequence from the
	// moment of the link.
	both := startSiteCallers(t, s)
	time.Sleep(time.Second) // apart: the same numbers at both sites, as with any two installations
	both.startCounting()
	s.restore(t)
	linked := time.Now()
	for _, p := range younger {
		left := fmt.Sprintf("idworker %s leaves", p.name)
		natstest.Eventually(t, leaveWithin-time.Since(linked), left, func() bool {
			return strings.Contains(p.stderr.String(), "leaving the queue groups")
		})
	}
	took := time.Since(linked)
	checkSaysWhy(t, s, younger[0], health)
	time.Sleep(time.Second) // replies that were on the way
	during, answered := both.startCounting(), handedOut(t, health)+handedOut(t, health2)
	time.Sleep(3 * time.Second)
	if now := handedOut(t, health) + handedOut(t, health2); now != answered {
		t.Errorf("after they left, processes of the younger installation handed out %d IDs", now-answered)
	}
	after := both.finish()
	t.Logf("the last of the younger installation left after %v; until then %v; afterwards %v", took, during, after)
	for kind, c := range after {
		if c.ids == 0 || c.twice > 0 {
			t.Errorf("DUPLICATE or nothing: after the younger installation left, %d IDs of %s, %d of them a second time", c.ids, kind, c.twice)
		}
	}
	for _, p := range older {
		if log := p.stderr.String(); strings.Contains(log, "leaving the queue groups") {
			t.Errorf("the older installation left:\n%s", log)
		}
	}
	if count := strings.Count(younger[0].stderr.String(), "\terror\tleaving"); count != 1 {
		t.Errorf("the reason for leaving was logged %d times, want once", count)
	}

	// The older installation may restart meanwhile.
	older[1].stop(syscall.SIGTERM)
	startWorker(t, s.hub.URL(), "--layout", two)

	s.cut(t)
	client := dial(t, s.leaf.URL())
	natstest.Eventually(t, 60*time.Second, "the younger installation serves alone", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, segment := client.Next(ctx, "order")
		_, snowflake := client.SnowflakeN(ctx, 1)
		return segment == nil && snowflake == nil && ready(t, health)
	})
}

// checkSaysWhy looks at all places where a process says that it has left.
func checkSaysWhy(t *testing.T, s sites, p *process, health string) {
	t.Helper()
	if status, page := fetch(t, health, "/readyz"); status != 503 || !strings.Contains(page, "another installation") {
		t.Errorf("/readyz: %d %s", status, page)
	}
	if _, page := fetch(t, health, "/metrics"); metric(page, "idworker_installation_conflict") != "1" {
		t.Error("the metric does not say that it left")
	}
	all := stats(t, connect(t, s.leaf.URL()), 4) // two at each site answer
	if mine := all[p.instance()]; !strings.Contains(mine.LeftFor, "another installation") || mine.Installation == "" {
		t.Errorf("STATS: %+v", mine)
	}
}

// siteCallers ask for IDs of order and for snowflake IDs at both sites, and look for those
// that come twice.
type siteCallers struct {
	t       *testing.T
	mu      sync.Mutex
	ledgers ledgers // by kind; since startCounting
	seen    map[int64]bool
	flakes  counted
	stop    atomic.Bool
	wg      sync.WaitGroup
}

// counted is how many IDs came, and how many of them had come before.
type counted struct{ ids, twice int64 }

func (c counted) String() string {
	return fmt.Sprintf("%d IDs, %d of them handed out twice", c.ids, c.twice)
}

func startSiteCallers(t *testing.T, s sites) *siteCallers {
	c := &siteCallers{t: t}
	c.startCounting()
	for _, url := range []string{s.hub.URL(), s.leaf.URL()} {
		for range 2 {
			client := dial(t, url)
			c.wg.Go(func() { c.call(client) })
		}
	}
	t.Cleanup(func() { c.finish() })
	return c
}

// call asks one kind after the other. While a site has no worker, its callers ask again.
func (c *siteCallers) call(client requester) {
	for !c.stop.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		segment, err := client.NextN(ctx, "order", 1+time.Now().UnixNano()%3)
		flakes, flakesErr := client.SnowflakeN(ctx, 100)
		cancel()
		for _, err := range []error{err, flakesErr} {
			if err != nil && !lost(err) && !errors.Is(err, messages.ErrUnavailable) {
				c.t.Errorf("request: %v", err)
			}
		}
		c.mu.Lock()
		c.ledgers["order"].add(segment)
		for id := range messages.IDs(flakes) {
			c.flakes.ids++
			if c.seen[id] {
				c.flakes.twice++
			}
			c.seen[id] = true
		}
		c.mu.Unlock()
	}
}

// startCounting forgets what came so far, and returns what that was.
func (c *siteCallers) startCounting() map[string]counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[string]counted)
	if c.ledgers != nil {
		l := c.ledgers["order"]
		found["order"] = counted{l.ids.Load(), l.twice.Load()}
		found["snowflake"] = c.flakes
	}
	c.ledgers, c.seen, c.flakes = newLedgers([]string{"order"}), make(map[int64]bool), counted{}
	return found
}

// finish ends the callers, and returns what came since startCounting.
func (c *siteCallers) finish() map[string]counted {
	c.stop.Store(true)
	c.wg.Wait()
	return c.startCounting()
}

// ready reports whether a process says that it is.
func ready(t *testing.T, health string) bool {
	code, _ := fetch(t, health, "/readyz")
	return code == 200
}

// handedOut is how many IDs of either kind a process says it has handed out.
func handedOut(t *testing.T, health string) (ids int64) {
	t.Helper()
	_, page := fetch(t, health, "/metrics")
	kinds := regexp.MustCompile(`(?m)^idworker_ids_total{installation="\w+",kind="\w+"} (\S+)$`).FindAllStringSubmatch(page, -1)
	if len(kinds) != 2 {
		t.Fatalf("no IDs are counted in:\n%s", page)
	}
	for _, kind := range kinds {
		n, err := strconv.ParseFloat(kind[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		ids += int64(n)
	}
	return ids
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
	if _, err := answers.NextMsg(leaveWithin); err != nil {
		t.Errorf("no answer: %v", err)
	}
	// Both are of one installation, so one of them got the hello. The other one gets an answer
	// to its own, as from one process of the older installation.
	for _, p := range processes {
		answer := "ids.hello." + p.instance()
		if err := other.Publish(answer, []byte(`{"installation":"older","created":"2001-01-01T00:00:00Z","instance":"W0","serving":true}`)); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, leaveWithin, p.name+" leaves", func() bool { return strings.Contains(p.stderr.String(), "leaving the queue groups") })
	}
	all := stats(t, net.connect("admin"), 1)
	if mine := all[processes[1].instance()]; !strings.Contains(mine.LeftFor, "older (since 2001-01-01") {
		t.Errorf("STATS: %+v", all)
	}
	if refused := net.violations(); len(refused) > 0 {
		t.Errorf("the server refused:\n%s", strings.Join(refused, ""))
	}
}
