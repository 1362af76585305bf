// Package regions tries idworker across regions, with real servers and
// processes: two clusters joined by gateways, and leaf nodes. It checks every ID
// for promises, and logs figures. docs/regions.md describes the sites.
package regions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/tier"
)

// kinds are the kinds of IDs that callers request.
var kinds = []string{"trend", "strict", "snowflake"}

// ledger has all answers of all regions.
type ledger struct {
	t       *testing.T
	mu      sync.Mutex
	calls   []order.Call
	flakes  map[int64]bool
	figures map[string]*figures // by region and kind, since the last reset
}

type figures struct {
	answered, failed int
	longest          time.Duration // of an answered request
	lastError        error
	from             map[int64]int // snowflake IDs by datacenter
}

func (f *figures) String() string {
	text := fmt.Sprintf("%d answered, %d failed, longest %v", f.answered, f.failed, f.longest.Round(time.Millisecond))
	if len(f.from) > 0 {
		text += fmt.Sprintf(", by datacenter %v", f.from)
	}
	if f.lastError != nil {
		text += fmt.Sprintf(", last error: %v", f.lastError)
	}
	return text
}

// figure returns the figures of a region and a kind. The caller holds mu.
func (l *ledger) figure(region, kind string) *figures {
	f := l.figures[region+" "+kind]
	if f == nil {
		f = &figures{from: make(map[int64]int)}
		l.figures[region+" "+kind] = f
	}
	return f
}

func (l *ledger) add(region, kind string, c order.Call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.figure(region, kind)
	if err != nil {
		f.failed++
		f.lastError = err
		return
	}
	f.answered++
	f.longest = max(f.longest, c.Received.Sub(c.Sent))
	if kind != "snowflake" {
		l.calls = append(l.calls, c)
		return
	}
	for id := range messages.IDs(c.Ranges) {
		if l.flakes[id] {
			l.t.Errorf("DUPLICATE: snowflake ID %d in %s", id, region)
		}
		l.flakes[id] = true
		f.from[snowflake.Twitter().Datacenter(snowflake.ID(id))]++
	}
}

// phase logs the figures since the last phase, and begins another.
func (l *ledger) phase(name string) (was map[string]*figures) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, l.figures = l.figures, make(map[string]*figures)
	for what, f := range was {
		l.t.Logf("%s: %s: %v", name, what, f)
	}
	return was
}

// check checks the order of strict tags, and that no ID of a tag came twice.
func (l *ledger) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	strict := make([]order.Call, 0, len(l.calls))
	seen := make(map[int64]bool)
	for _, c := range l.calls {
		if c.Tag == "strict" {
			strict = append(strict, c)
			continue
		}
		for id := range messages.IDs(c.Ranges) {
			if seen[id] {
				l.t.Errorf("DUPLICATE: ID %d of tag %s", id, c.Tag)
			}
			seen[id] = true
		}
	}
	if err := order.Check(strict); err != nil {
		l.t.Error(err)
	}
	l.t.Logf("checked %d segment requests and %d snowflake IDs", len(l.calls), len(l.flakes))
}

// callers are the callers of a region: one for each kind of IDs.
type callers struct {
	stop atomic.Bool
	wg   sync.WaitGroup
}

// patience bounds a request. The Go client retries until then.
const patience = 3 * time.Second

func (l *ledger) start(s *sites, region, url string) *callers {
	l.t.Helper()
	c := new(callers)
	for _, kind := range kinds {
		client := messages.NewClient(s.connect(url), messages.DefaultPrefix)
		c.wg.Go(func() {
			for !c.stop.Load() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				call := order.Call{Tag: kind, Sent: time.Now(), Count: 1}
				var err error
				if kind == "snowflake" {
					call.Ranges, err = client.SnowflakeN(ctx, 1)
				} else {
					call.Ranges, err = client.NextN(ctx, kind, 1)
				}
				call.Received = time.Now()
				cancel()
				l.add(region, kind, call, err)
				time.Sleep(2 * time.Millisecond) // a bounded load
			}
		})
	}
	l.t.Cleanup(c.finish)
	return c
}

func (c *callers) finish() {
	c.stop.Store(true)
	c.wg.Wait()
}

// answered waits until so many more requests of each kind were answered in a
// region.
func (l *ledger) answered(region string, n int, of ...string) {
	l.t.Helper()
	if len(of) == 0 {
		of = kinds
	}
	count := func() map[string]int {
		l.mu.Lock()
		defer l.mu.Unlock()
		counts := make(map[string]int)
		for _, kind := range of {
			counts[kind] = l.figure(region, kind).answered
		}
		return counts
	}
	before := count()
	natstest.Eventually(l.t, fmt.Sprintf("%d more answers of %v in %s", n, of, region), func() bool {
		now := maps.Clone(before)
		maps.Copy(now, count())
		for _, kind := range of {
			if now[kind] < before[kind]+n {
				return false
			}
		}
		return true
	})
}

// failed waits until a request of a kind has failed in a region.
func (l *ledger) failed(region, kind string) {
	l.t.Helper()
	natstest.Eventually(l.t, kind+" requests fail in "+region, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.figure(region, kind).failed > 0
	})
}

// latest returns the datacenter of an ID requested now.
func latest(t *testing.T, client *messages.Client) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	id, err := client.Snowflake(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return snowflake.Twitter().Datacenter(snowflake.ID(id))
}

// settles waits until a hundred requests in a row were answered by a
// datacenter.
func settles(t *testing.T, client *messages.Client, datacenter int64) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("requests stay in datacenter %d", datacenter), func() bool {
		for range 100 {
			if latest(t, client) != datacenter {
				return false
			}
		}
		return true
	})
}

// TestRegions: requests stay local while a local worker lives, and go across
// when none does. While gateways are cut, each region answers what it can, and
// no ID comes twice. Installations with domains of their own issue snowflake
// IDs side by side if their datacenters differ.
func TestRegions(t *testing.T) {
	tier.Release(t)
	s := startSites(t)
	edgeURL, edgeLink := s.leaf("edge")
	natstest.Eventually(t, "the hub's JetStream is ready", func() bool {
		code, _ := s.idworker("provision", "--server", s.a, "--part", "ids", "--replicas", "3", "--lease-ttl", "15s")
		return code == 0
	})
	for range 2 {
		s.serve(s.a, 0)
	}
	remote := s.serve(s.b, 1, "--role", "worker")
	s.serve(edgeURL, 2, "--role", "snowflake")
	s.serve(edgeURL, 3, "--role", "worker", "--js-domain", "hub")
	for _, tag := range []string{"trend", "strict"} {
		if code, out := s.idworker("tag", "create", "--server", s.a, tag, "--order", tag); code != 0 {
			t.Fatal(out)
		}
	}
	client := messages.NewClient(s.connect(s.b), messages.DefaultPrefix)
	l := &ledger{t: t, flakes: make(map[int64]bool), figures: make(map[string]*figures)}

	// Local first, across if there is no local worker, and back.
	settles(t, client, 1)
	remote.Signal(syscall.SIGTERM)
	natstest.Eventually(t, "requests go across", func() bool { return latest(t, client) != 1 })
	natstest.Eventually(t, "the worker ends", remote.HasEnded)
	remote = s.serve(s.b, 1, "--role", "worker")
	settles(t, client, 1)
	remote.Kill()
	natstest.Eventually(t, "requests go across", func() bool { return latest(t, client) != 1 })
	s.serve(s.b, 1, "--role", "worker")
	settles(t, client, 1)

	// All regions under load, with the gateways cut and healed.
	var running []*callers
	for region, url := range map[string]string{"a": s.a, "b": s.b, "edge": edgeURL} {
		running = append(running, l.start(s, region, url))
	}
	for _, region := range []string{"a", "b", "edge"} {
		l.answered(region, 500)
	}
	local := map[string][]int64{"a": {0}, "b": {1}, "edge": {2, 3}} // datacenters
	for what, f := range l.phase("joined") {
		region, _, _ := strings.Cut(what, " ")
		for datacenter := range f.from {
			if !slices.Contains(local[region], datacenter) {
				t.Errorf("%s: answers from datacenter %d while a local worker lived", what, datacenter)
			}
		}
	}
	s.gateways.cut()
	l.failed("b", "strict")
	l.answered("a", 1000)
	l.answered("edge", 500, "snowflake")
	l.failed("b", "snowflake") // its fence has ended
	l.answered("edge", 500, "snowflake")
	l.phase("gateways cut")
	s.gateways.heal()
	for _, region := range []string{"a", "b", "edge"} {
		l.answered(region, 500)
	}
	l.phase("gateways healed")
	edgeLink.cut()
	l.answered("edge", 500, "snowflake")
	l.failed("edge", "strict")
	l.phase("leaf node cut")
	edgeLink.heal()
	for _, region := range []string{"a", "b", "edge"} {
		l.answered(region, 500)
	}
	l.phase("leaf node healed")
	for _, c := range running {
		c.finish()
	}
	l.check()

	t.Run("datacenter taken", func(t *testing.T) { datacenterTaken(t, s) })
}

// datacenterTaken: a process with a domain of its own refuses to start with a
// datacenter that another domain has, or stands by if the link comes later.
func datacenterTaken(t *testing.T, s *sites) {
	linked, to := s.leaf("edge2")
	refused := s.start(linked, 2, "--role", "snowflake")
	natstest.Eventually(t, "the start is refused", refused.HasEnded)
	code, text := refused.Cmd.ProcessState.ExitCode(), refused.Stderr.String()
	if code == 0 || !strings.Contains(text, "datacenter 2") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	t.Logf("exit code %d: %s", code, text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:])
	to.cut()
	late := s.serve(linked, 2, "--role", "snowflake")
	to.heal()
	began := time.Now()
	late.logs("standing by for an older installation")
	t.Logf("stands by %v after the link came", time.Since(began).Round(time.Second))
}
