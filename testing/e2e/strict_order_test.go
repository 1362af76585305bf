package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
	"github.com/idworker/idworker/worker"
)

// TestStrictOrder is the promise of strict tags: of every two requests, one answered before the
// other was sent, the IDs go up, whoever asks whom. Eight callers ask through four workers on
// three servers, while owners are killed, paused beyond their lease, cut off, and stopped, and
// the leaders of the streams change.
func TestStrictOrder(t *testing.T) {
	t.Parallel()
	s := startStrictSite(t, settings{}, 4, 8)
	testStrictOrder(t, s, soak.Pick[int64](100_000, 10_000_000))
}

// TestStrictOrderOnDatabases does the same with segments from databases, in the long form only:
// what keeps the order is in NATS, but the store is what is above what was granted.
func TestStrictOrderOnDatabases(t *testing.T) {
	ids := soak.Pick[int64](0, 1_000_000)
	if ids == 0 {
		t.Skip("in make soak")
	}
	eachDatabase(t, func(t *testing.T, d database) {
		testStrictOrder(t, startStrictSite(t, on(d.with(t).DSN()), 4, 8), ids)
	})
}

func testStrictOrder(t *testing.T, s *strictSite, ids int64) {
	callers := startObservers(t, s.urls, load{
		callers: 8, tags: s.tags, maxBatch: 500, timeout: 400 * time.Millisecond, retry: transient,
	})
	more := func(n int64) {
		t.Helper()
		target := callers.ids.Load() + n
		natstest.Eventually(t, time.Minute, "IDs are handed out", func() bool { return callers.ids.Load() >= target || t.Failed() })
	}
	defer func() { callers.finish(); callers.check() }()
	more(5000)
	begin := time.Now()
	for round := 0; round == 0 || callers.ids.Load() < ids; round++ {
		for i, disturb := range []func(int){s.pause, s.cutOff, s.killAndRestart, s.stopAndRestart, s.changeLeaders} {
			disturb((round + i) % len(s.workers))
			more(2000)
			if t.Failed() {
				return
			}
		}
	}
	more(max(0, ids-callers.ids.Load()))
	callers.finish()
	s.stopAll() // whatever is still on its way arrives before that
	t.Logf("in %v: %v", time.Since(begin).Round(time.Second), s.done)
}

// strictSite is workers on a cluster, and strict tags. Each worker reaches NATS through a proxy.
type strictSite struct {
	t       *testing.T
	how     settings
	cluster *natstest.Cluster
	conn    *nats.Conn
	urls    []string
	links   []*dbtest.Proxy
	workers []*process
	tags    []string
	done    map[string]int
}

func startStrictSite(t *testing.T, how settings, workers, tags int) *strictSite {
	t.Helper()
	s := &strictSite{t: t, how: how, done: make(map[string]int)}
	s.cluster = natstest.StartCluster(t, 3, func(o *server.Options) { o.Cluster.NoAdvertise = true })
	s.conn = s.cluster.Connect(t)
	for _, n := range s.cluster.Servers {
		s.urls = append(s.urls, n.URL())
	}
	for i := range workers {
		s.links = append(s.links, dbtest.StartProxy(t, s.urls[i%3][len("nats://"):]))
		s.workers = append(s.workers, nil)
		s.start(i)
	}
	for i := range tags {
		s.tags = append(s.tags, fmt.Sprintf("strict%d", i))
		how.mustRun(t, "tag", "create", "--server", s.urls[0], s.tags[i], "--order", "strict", "--step", "1000")
	}
	s.served(s.tags...)
	return s
}

// start starts a worker.
func (s *strictSite) start(i int) {
	s.t.Helper()
	s.workers[i] = s.how.startWorker(s.t, "nats://"+s.links[i].Addr(), "--replicas", "3", "--max-batch", "500", "--max-step", "20000")
}

// served waits until somebody answers for tags.
func (s *strictSite) served(tags ...string) {
	s.t.Helper()
	client := messages.NewClient(s.conn, messages.DefaultPrefix)
	for _, tag := range tags {
		ctx, cancel := context.WithTimeout(s.t.Context(), readyWithin)
		_, err := client.Next(ctx, tag)
		cancel()
		if err != nil {
			s.t.Fatalf("tag %s: %v", tag, err)
		}
	}
}

// owned is how many slots each worker owns, as those say that answer within a second. A worker that was
// cut off a moment ago may not.
func (s *strictSite) owned() map[string]int {
	s.t.Helper()
	inbox := s.conn.NewRespInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.conn.PublishRequest("$SRV.STATS."+worker.ServiceName, inbox, nil); err != nil {
		s.t.Fatal(err)
	}
	slots := make(map[string]int)
	for deadline := time.Now().Add(time.Second); len(slots) < len(s.workers); {
		msg, err := sub.NextMsg(time.Until(deadline))
		if err != nil {
			break
		}
		var answer struct{ Endpoints []struct{ Data worker.Stats } }
		if err := json.Unmarshal(msg.Data, &answer); err != nil || len(answer.Endpoints) != 1 {
			s.t.Fatalf("STATS: %v\n%s", err, msg.Data)
		}
		slots[answer.Endpoints[0].Data.Instance] = answer.Endpoints[0].Data.Strict.Slots
	}
	return slots
}

// ended counts how often others have ended a lease of a worker.
func (s *strictSite) ended(i int) (n int) {
	for j, w := range s.workers {
		if j == i {
			continue
		}
		for line := range strings.Lines(w.stderr.String()) {
			if strings.Contains(line, "\ta process has not renewed its lease") && strings.Contains(line, s.workers[i].instance()) {
				n++
			}
		}
	}
	return n
}

// untilEnded does something that costs a worker its lease, and returns when others have ended it.
func (s *strictSite) untilEnded(i int, what string, do func()) {
	s.t.Helper()
	natstest.Eventually(s.t, readyWithin, fmt.Sprintf("worker %d owns a slot", i), func() bool { return s.owned()[s.workers[i].instance()] > 0 })
	before := s.ended(i)
	do()
	natstest.Eventually(s.t, readyWithin, fmt.Sprintf("the lease of worker %d, %s, is ended by others", i, what), func() bool { return s.ended(i) > before })
	s.done[what]++
}

// pause stops a worker until another one has its slots, and lets it go on.
func (s *strictSite) pause(i int) {
	s.untilEnded(i, "paused", func() { s.workers[i].pause() })
	s.served(s.tags...) // by others, so what is left to the worker is of the past
	s.workers[i].resume()
}

// cutOff does the same to its connection.
func (s *strictSite) cutOff(i int) {
	s.untilEnded(i, "cut off", s.links[i].Refuse)
	s.served(s.tags...)
	s.links[i].Accept()
}

func (s *strictSite) killAndRestart(i int) {
	s.untilEnded(i, "killed", s.workers[i].kill)
	s.start(i)
}

// stopAndRestart stops a worker, which hands its slots over.
func (s *strictSite) stopAndRestart(i int) {
	s.workers[i].stop(syscall.SIGTERM)
	s.start(i)
	s.done["stopped"]++
}

// changeLeaders has the leaders of all streams step down. They may refuse, or have done so already.
func (s *strictSite) changeLeaders(int) {
	s.t.Helper()
	js, err := jetstream.New(s.conn)
	if err != nil {
		s.t.Fatal(err)
	}
	names := js.StreamNames(s.t.Context())
	for name := range names.Name() {
		if _, err := s.conn.Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, nil, 5*time.Second); err == nil {
			s.done["leader changed"]++
		}
	}
	if names.Err() != nil {
		s.t.Logf("streams: %v", names.Err())
	}
}

func (s *strictSite) stopAll() {
	s.t.Helper()
	for _, w := range s.workers {
		w.stop(syscall.SIGTERM)
	}
	flush(s.t, s.conn)
}
