package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// How soon workers have to leave a frozen server, and what callers of the other servers see
// from then on. The race detector and the tests beside this one make usual runs slow, so that only
// the soak, which runs alone, bounds what the slowest requests take.
var (
	leftWithin = soak.Pick(15*time.Second, 3*time.Second)
	fastShare  = soak.Pick(0.9, 0.999) // of the requests
	fastEnough = soak.Pick(time.Second, 100*time.Millisecond)
)

// warmFor is how long callers ask before the first server freezes. Workers know the tag's rate
// by then, and have reserved many minutes' worth of IDs.
const warmFor = 5 * time.Second

// TestFrozenServer freezes each of three NATS servers in turn while callers ask for IDs of both
// kinds. Workers leave a frozen server within 3 seconds. No request to another server fails,
// and after those 3 seconds requests are as fast as ever. No worker ID is lost with a TTL of 6
// seconds, although JetStream may need longer than that to elect another leader.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	rounds := soak.Pick(1, 10)
	c := startTrio(t)
	f := &freezer{trio: c, frozen: soak.Pick(5*time.Second, 15*time.Second)}
	for range 3 {
		f.workers = append(f.workers, startWorker(t, strings.Join(c.urls(), ","), "--replicas", "3", "--lease-ttl", "6s"))
	}
	must(t, "tag", "create", "--server", c.urls()[0], "order", "--step", "1000")
	natstest.Eventually(t, clusterWithin, "there are three copies of everything", c.whole)
	c.warm(t, len(f.workers))
	for _, url := range c.urls() {
		f.callers = append(f.callers, &frozenCaller{patient: startPatient(t, url)})
	}
	for _, caller := range f.callers {
		caller.await(t, int(warmFor.Seconds())*patientRate)
	}
	for round := range rounds {
		for victim := range soak.Pick(2, 3) {
			f.freeze(t, round, victim)
		}
	}
	for i, caller := range f.callers {
		caller.finish()
		caller.checkDistinct(t)
		caller.checkFailures(t, c.name(i))
	}
}

// freezer freezes servers.
type freezer struct {
	*trio
	frozen  time.Duration // how long a server is
	workers []*process
	callers []*frozenCaller // one for each server
}

// freeze freezes a server for a while.
func (f *freezer) freeze(t *testing.T, round, victim int) {
	t.Helper()
	for _, caller := range f.callers {
		caller.await(t, patientRate)
	}
	natstest.Eventually(t, clusterWithin, "it is known who leads what", f.whole)
	f.awaitRenewals(t)
	what := fmt.Sprintf("round %d, %s frozen, %s", round, f.name(victim), f.leads(victim))
	others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == victim })
	all, there := f.connections(t, 0, 1, 2), f.connections(t, victim)
	before := len(f.givenUp())

	f.nodes[victim].server.pause()
	thaw := func() { f.nodes[victim].server.resume() }
	t.Cleanup(thaw) // or the server could not be ended
	began := time.Now()
	natstest.Eventually(t, clusterWithin, "workers are elsewhere", func() bool { return f.connections(t, others...) >= all })
	left := time.Since(began)
	time.Sleep(time.Until(began.Add(f.frozen)))
	ended := time.Now()
	thaw()

	stood := machine.during(window{began, ended})
	if left > leftWithin && len(stood) == 0 {
		t.Errorf("%s: workers took %v to go elsewhere, want %v", what, left, leftWithin)
	}
	natstest.Eventually(t, clusterWithin, f.name(victim)+" is up to date again", f.whole)
	natstest.Eventually(t, clusterWithin, "its callers are served", f.callers[victim].served)
	f.callers[victim].frozen = append(f.callers[victim].frozen, window{began, time.Now()})
	lost := len(f.givenUp()) - before
	t.Logf("%s: %d of %d connections moved, within %v; %d worker IDs lost", what, there, all, left.Round(10*time.Millisecond), lost)
	for _, line := range f.givenUp()[before:] {
		t.Log(line)
	}
	if len(stood) > 0 {
		t.Logf("%s: the whole machine stood still, so no times are bounded: %v", what, stood)
		return
	}
	if lost > 0 {
		t.Errorf("%s: %d worker IDs lost", what, lost)
	}
	for _, i := range others {
		f.callers[i].checkSpeed(t, fmt.Sprintf("%s, callers of %s", what, f.name(i)), window{began.Add(3 * time.Second), ended})
	}
}

// awaitRenewals waits until every lease was renewed of late. A lease lasts over one fault, as is promised, not over a second
// that comes before the next heartbeat.
func (f *freezer) awaitRenewals(t *testing.T) {
	t.Helper()
	natstest.Eventually(t, clusterWithin, "all leases were renewed of late", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), callerPatience)
		defer cancel()
		bucket, err := f.js.KeyValue(ctx, "ids_workers")
		if err != nil {
			return false
		}
		keys, err := bucket.Keys(ctx)
		if err != nil {
			return false
		}
		fresh := 0
		for _, key := range keys {
			if entry, err := bucket.Get(ctx, key); err == nil && time.Since(entry.Created()) < 3*time.Second {
				fresh++
			}
		}
		return fresh >= len(f.workers)
	})
}

// connections counts the connections of workers at servers.
func (f *freezer) connections(t *testing.T, nodes ...int) (n int) {
	t.Helper()
	for _, node := range nodes {
		var connz struct {
			Connections []struct{ Name string }
		}
		code, body := fetch(t, f.monitor[node], "/connz")
		if err := json.Unmarshal([]byte(body), &connz); code != 200 || err != nil {
			t.Fatalf("/connz of %s: %d, %v", f.name(node), code, err)
		}
		for _, conn := range connz.Connections {
			if strings.HasPrefix(conn.Name, "idworker") {
				n++
			}
		}
	}
	return n
}

// givenUp is what workers logged about worker IDs that were lost.
func (f *freezer) givenUp() (lines []string) {
	for _, w := range f.workers {
		for line := range strings.Lines(w.stderr.String()) {
			if strings.Contains(line, "worker ID given up") {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines) // they begin with the time
	return lines
}

// window is a period of time.
type window struct{ from, to time.Time }

// meets reports whether a request was under way in the window.
func (w window) meets(a answer) bool { return a.sent.Before(w.to) && a.received.After(w.from) }

// frozenCaller asks one server for IDs.
type frozenCaller struct {
	*patient
	frozen []window // when that server was not there
}

// served reports whether the latest requests were answered.
func (c *frozenCaller) served() bool {
	for _, s := range c.kinds {
		latest := s.since(max(0, s.count()-5))
		if len(latest) < 5 || firstError(latest) >= 0 {
			return false
		}
	}
	return true
}

// checkSpeed fails the test if requests of the window took too long.
func (c *frozenCaller) checkSpeed(t *testing.T, what string, w window) {
	t.Helper()
	for kind, s := range c.kinds {
		var took []time.Duration
		for _, a := range s.since(0) {
			if a.sent.After(w.from) && a.sent.Before(w.to) {
				took = append(took, a.received.Sub(a.sent))
			}
		}
		slices.Sort(took)
		if len(took) == 0 { // workers had just left when the server went on
			continue
		}
		at := func(share float64) time.Duration { return took[int(share*float64(len(took)-1))] }
		t.Logf("%s, %s: %d requests, p50 %v, p90 %v, p99.9 %v, the latest %v", what, kind, len(took), at(0.5), at(0.9), at(0.999), at(1))
		if slow := at(fastShare); slow > fastEnough {
			t.Errorf("%s, %s: %v of the requests take up to %v, want %v", what, kind, fastShare, slow, fastEnough)
		}
	}
}

// checkFailures fails the test if a request failed while the server was there.
func (c *frozenCaller) checkFailures(t *testing.T, name string) {
	t.Helper()
	for kind, s := range c.kinds {
		all, failed, first := s.since(0), 0, error(nil)
		for _, a := range all {
			if a.err != nil && !slices.ContainsFunc(c.frozen, func(w window) bool { return w.meets(a) }) {
				failed, first = failed+1, a.err
			}
		}
		t.Logf("callers of %s, %s: %d requests, %d failed that should not have", name, kind, len(all), failed)
		if failed > 0 {
			t.Errorf("callers of %s, %s: %d requests failed, one with: %v", name, kind, failed, first)
		}
	}
}
