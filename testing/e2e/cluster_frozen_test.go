package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/soak"
)

// TestFrozenServer freezes each of three NATS servers in turn while callers of the others ask
// for IDs of both kinds. Workers leave a frozen server within 3 seconds. No request of those
// callers fails, and after those 3 seconds requests are as fast as ever.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	rounds, frozen := soak.Pick(1, 10), soak.Pick(7*time.Second, 15*time.Second)
	c := startTrio(t)
	var workers []*process
	for range 3 {
		workers = append(workers, startWorker(t, strings.Join(c.urls(), ","), "--replicas", "3", "--max-step", "1000", "--max-batch", "1000", "--lease-ttl", "6s"))
	}
	must(t, "tag", "create", "--server", c.urls()[0], "order", "--step", "1000")
	natstest.Eventually(t, clusterWithin, "there are three copies of everything", c.whole)
	c.warm(t, len(workers))
	var callers []*patient
	for _, url := range c.urls() {
		callers = append(callers, startPatient(t, url))
	}
	for round := range rounds {
		for victim := range 3 {
			others := slices.Delete(slices.Clone(callers), victim, victim+1)
			for _, p := range others {
				p.await(t, patientRate)
				p.mark()
			}
			before := givenUp(workers)
			what := fmt.Sprintf("round %d, %s frozen, %s", round, c.name(victim), c.leads(victim))
			c.freeze(t, victim, what, frozen, others)
			for _, p := range others {
				if failed, first := p.report(t, what+", all the time"); failed > 0 {
					t.Errorf("%s: %d requests failed, the first with: %v", what, failed, first)
				}
			}
			t.Logf("%s: %d worker IDs given up", what, givenUp(workers)-before)
			natstest.Eventually(t, clusterWithin, c.name(victim)+" is up to date again", c.whole)
			natstest.Eventually(t, clusterWithin, "callers of "+c.name(victim)+" are served", func() bool {
				return c.served(callers[victim])
			})
		}
	}
	for _, p := range callers {
		p.finish()
		p.checkDistinct(t)
	}
}

// freeze freezes a server for a while, with a look at how soon nobody of ours is there, and at
// the requests from then on.
func (c *trio) freeze(t *testing.T, victim int, what string, frozen time.Duration, callers []*patient) {
	t.Helper()
	connections := c.connections(t, 0, 1, 2)
	there := c.connections(t, victim)
	others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == victim })
	c.nodes[victim].server.signal(syscall.SIGSTOP)
	began := time.Now()
	defer c.nodes[victim].server.signal(syscall.SIGCONT)
	natstest.Eventually(t, frozen, "workers are elsewhere", func() bool { return c.connections(t, others...) >= connections })
	t.Logf("%s: %d of %d connections moved within %v", what, there, connections, time.Since(began).Round(10*time.Millisecond))
	if took := time.Since(began); took > soak.Pick(5*time.Second, 3500*time.Millisecond) { // of 3, on a machine that does much else
		t.Errorf("%s: workers took %v to go elsewhere", what, took)
	}
	time.Sleep(time.Until(began.Add(3 * time.Second))) // what is measured begins then
	for _, p := range callers {
		p.others = nil
	}
	marks := make([]map[string]int, len(callers))
	for i, p := range callers {
		marks[i] = map[string]int{}
		for kind, s := range p.kinds {
			marks[i][kind] = s.count()
		}
	}
	time.Sleep(time.Until(began.Add(frozen))) // it has to be frozen for that long
	for i, p := range callers {
		late := &patient{kinds: p.kinds, marks: marks[i]}
		_, _ = late.report(t, what+", after 3s")
	}
}

// connections counts the connections of workers at servers.
func (c *trio) connections(t *testing.T, nodes ...int) (n int) {
	t.Helper()
	for _, node := range nodes {
		var connz struct {
			Connections []struct{ Name string }
		}
		code, body := fetch(t, c.monitor[node], "/connz")
		if err := json.Unmarshal([]byte(body), &connz); code != 200 || err != nil {
			t.Fatalf("/connz of %s: %d, %v", c.name(node), code, err)
		}
		for _, conn := range connz.Connections {
			if strings.HasPrefix(conn.Name, "idworker") {
				n++
			}
		}
	}
	return n
}

// givenUp counts the worker IDs that were lost.
func givenUp(workers []*process) (n int) {
	for _, w := range workers {
		n += strings.Count(w.stderr.String(), "worker ID given up")
	}
	return n
}

// served reports whether the latest requests of a caller were answered.
func (c *trio) served(p *patient) bool {
	for _, s := range p.kinds {
		latest := s.since(max(0, s.count()-5))
		if len(latest) < 5 || firstError(latest) >= 0 {
			return false
		}
	}
	return true
}
