package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/micro"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// TestManyWorkers: many workers start at once, and answer requests for a hot
// tag, for many warm tags and for snowflake IDs. Then half of them are
// restarted at once, so that all of that half are away together for a moment.
// No request fails, with a client or without, and no ID comes twice. There are
// no more load writes than segments are needed, none at rest, and no more
// worker IDs in use than workers.
func TestManyWorkers(t *testing.T) {
	workers := tier.Pick(40, 200)
	warm := tier.Pick(100, 1000)
	phase := tier.Pick(3*time.Second, 30*time.Second)
	const loaders = 3

	// A host that does many things at once may need longer than requests wait
	// as a rule.
	srv := natstest.Start(t, syncAlways)
	s := newSite(t, srv, worker.Config{Wait: answerWithin * 2 / 3}, nil)
	tags := s.createTags(1+warm, "tag", store.Trend)
	for range loaders {
		s.mustStart(worker.RoleLoader)
	}
	m := &meter{t: t, net: srv}

	m.begin()
	all := make([]member, workers)
	t.Cleanup(func() { atOnce(t, all, member.stop) })
	startAll := func(some []member) {
		t.Helper()
		starting := make([]error, len(some))
		var wg sync.WaitGroup
		for k := range some {
			wg.Go(func() { some[k], starting[k] = s.start(worker.RoleWorker) })
		}
		wg.Wait()
		if err := errors.Join(starting...); err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
	startAll(all)
	s.awaitHolders(workers)
	m.end("all start at once", 0)

	c := startCallers(t, srv, tags)
	during := func(name string, do func()) {
		before := c.requests.Load()
		m.begin()
		do()
		m.end(name, c.requests.Load()-before)
	}
	for _, name := range []string{"load begins", "load"} {
		during(name, func() { time.Sleep(phase) })
	}
	segments := s.activeTags(workers)
	half := all[:workers/2]
	during("half are restarted", func() {
		atOnce(t, half, member.stop)
		startAll(half)
	})
	s.awaitHolders(workers)
	during("load afterwards", func() { time.Sleep(phase) })
	c.finish()
	segments += s.activeTags(workers)

	time.Sleep(time.Second) // the last loads are granted
	m.begin()
	time.Sleep(phase)
	atRest := m.end("at rest", 0)

	if atRest.store > 0 {
		t.Errorf("%d writes to the store at rest", atRest.store)
	}
	// Each worker needs a segment of each of its tags, and the next segment.
	if writes := m.total.store; writes > 2*segments+len(tags) {
		t.Errorf("%d writes to the store for %d pairs of worker and tag", writes, segments)
	}
	list, _, err := lease.List(t.Context(), s.js, s.cfg.Prefix, kv.ByConsumer)
	if err != nil || len(list) != workers {
		t.Errorf("%d worker IDs were used by %d workers, %v", len(list), workers, err)
	}
	t.Logf("%d workers, %d loaders, %d tags; %d pairs of worker and tag were in use; %d requests, %d IDs%s",
		workers, loaders, len(tags), segments, c.requests.Load(), c.ids(), m.table.String())
}

// atOnce does something with all processes at the same time.
func atOnce(t *testing.T, all []member, do func(member) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, p := range all {
		if p.Process == nil {
			continue
		}
		wg.Go(func() {
			if err := do(p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// awaitHolders waits until n worker IDs are leased.
func (s *site) awaitHolders(n int) {
	s.t.Helper()
	natstest.Eventually(s.t, "all have a worker ID", func() bool {
		list, _, err := lease.List(s.t.Context(), s.js, s.cfg.Prefix, kv.ByConsumer)
		held := 0
		for _, h := range list {
			if h.Held() {
				held++
			}
		}
		return err == nil && held == n
	})
}

// activeTags reads from n workers the number of tags requested since their
// start, and adds them up. An overloaded worker leaves the queue group for a
// moment; the read is repeated.
func (s *site) activeTags(n int) (active int) {
	s.t.Helper()
	conn := s.net.Connect(s.t)
	defer conn.Close()
	replies, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		s.t.Fatal(err)
	}
	tags := make(map[string]int) // by instance
	natstest.Eventually(s.t, "STATS of all workers", func() bool {
		if err := conn.PublishRequest("$SRV.STATS."+worker.ServiceName, replies.Subject, nil); err != nil {
			s.t.Fatal(err)
		}
		for len(tags) < n {
			reply, err := replies.NextMsg(5 * time.Second)
			if err != nil {
				return false
			}
			stats := decodeStats(s.t, reply.Data)
			tags[stats.Instance] = stats.Active
		}
		return true
	})
	for _, n := range tags {
		active += n
	}
	return active
}

func decodeStats(t testing.TB, data []byte) (stats worker.Stats) {
	t.Helper()
	var service micro.Stats
	err := json.Unmarshal(data, &service)
	if err == nil {
		err = json.Unmarshal(service.Endpoints[0].Data, &stats)
	}
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// The callers of each kind, and the pause of each after an answer.
const (
	callersPerKind = 2
	callerPause    = time.Millisecond
)

// startCallers starts callers for a hot tag, for warm tags and for snowflake IDs.
func startCallers(t *testing.T, net connector, tags []string) *crowd {
	c := newCrowd(t)
	for range callersPerKind {
		conn := net.Connect(t)
		client := messages.NewClient(conn, messages.DefaultPrefix)
		hot, next := tags[0], 0
		c.add("client, hot", callerPause, func(ctx context.Context) (string, int64, error) {
			id, err := client.Next(ctx, hot)
			return hot, id, err
		})
		c.add("client, warm", callerPause, func(ctx context.Context) (string, int64, error) {
			next++
			tag := tags[1+next%(len(tags)-1)]
			id, err := client.Next(ctx, tag)
			return tag, id, err
		})
		c.add("client, snowflake", callerPause, func(ctx context.Context) (string, int64, error) {
			id, err := client.Snowflake(ctx)
			return "", id, err
		})
		c.addPlain(conn, callerPause, hot)
	}
	return c
}

// meter measures a server's work in a phase.
type meter struct {
	t   *testing.T
	net *natstest.Node

	since  time.Time
	before count
	total  count
	table  strings.Builder
}

// count holds a server's counters since its start.
type count struct {
	store  int // writes to the register
	leases int // and to those of leases and fences
	events int // load events
	api    int
	in     int
	out    int
}

func (a count) minus(b count) count {
	return count{a.store - b.store, a.leases - b.leases, a.events - b.events, a.api - b.api, a.in - b.in, a.out - b.out}
}

func (m *meter) count() (c count) {
	m.t.Helper()
	js, err := m.net.Running().Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		m.t.Fatal(err)
	}
	vars, err := m.net.Running().Varz(nil)
	if err != nil {
		m.t.Fatal(err)
	}
	c.api, c.in, c.out = int(js.API.Total), int(vars.InMsgs), int(vars.OutMsgs)
	for _, account := range js.AccountDetails {
		for _, s := range account.Streams {
			written := int(s.State.LastSeq)
			switch s.Name {
			case "KV_ids_register":
				c.store = written
			case "IDS_LOAD":
				c.events = written
			case "KV_ids_workers", "KV_ids_clock":
				c.leases += written
			}
		}
	}
	return c
}

func (m *meter) begin() { m.since, m.before = time.Now(), m.count() }

// end ends a phase and adds a line to the table.
func (m *meter) end(name string, requests int64) count {
	now, seconds := m.count(), time.Since(m.since).Seconds()
	c := now.minus(m.before)
	m.total = now
	rate := func(n int) float64 { return float64(n) / seconds }
	if m.table.Len() == 0 {
		fmt.Fprintf(&m.table, "\n%-20s %8s %10s %10s %10s %10s %10s %12s %12s", "a second", "seconds", "requests",
			"store", "events", "leases", "API", "msgs in", "msgs out")
	}
	fmt.Fprintf(&m.table, "\n%-20s %8.1f %10.0f %10.1f %10.1f %10.1f %10.1f %12.1f %12.1f", name, seconds, float64(requests)/seconds,
		rate(c.store), rate(c.events), rate(c.leases), rate(c.api), rate(c.in), rate(c.out))
	return c
}
