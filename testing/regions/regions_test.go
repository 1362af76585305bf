package regions

import (
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// The flags of processes that issue snowflake IDs. Workers of the hub's
// installation have a datacenter, the edge another.
var (
	ofHub  = []string{"--role", "worker", "--layout", "twitter", "--datacenter", "1", "--lease-ttl", leaseTTL}
	ofEdge = []string{"--role", "snowflake", "--layout", "twitter", "--datacenter", "2", "--lease-ttl", leaseTTL}
	far    = append([]string{"--js-domain", "hub"}, ofHub...)
)

// processes are those of the whole site.
type processes struct{ a, b, edge []*member }

// startAll starts the site and its processes. Region a has a loader, too.
func startAll(t *testing.T) (*site, processes) {
	t.Helper()
	s := newSite(t)
	s.startGateways(3, 1)
	s.provision()
	s.startEdge()
	p := processes{a: s.workers(s.a), b: s.workers(s.b)}
	// Small buffers, so that they are used up soon.
	s.a.serve("loader", "--role", "loader", "--max-step", "500", "--max-batch", "500")
	s.a.must("admin", "tag", "create", trend, "--step", "300")
	s.a.must("admin", "tag", "create", strict, "--order", "strict")
	p.edge = s.workers(s.edge)
	return s, p
}

// workers starts the processes of a region that answer requests.
func (s *site) workers(r *region) []*member {
	s.t.Helper()
	if r == s.edge {
		return []*member{r.serve("worker", ofEdge...), r.serve("far", far...)}
	}
	return []*member{r.serve("worker", ofHub...), r.serve("worker", ofHub...)}
}

// TestLocalFirst: the workers of a region answer its callers while one lives.
// Without any, the other region answers, until they are back.
func TestLocalFirst(t *testing.T) {
	tier.Release(t)
	s, p := startAll(t)
	for _, side := range []struct {
		region  *region
		members []*member
	}{{s.b, p.b}, {s.edge, p.edge}} {
		t.Run(side.region.name, func(t *testing.T) {
			c := newCallers(t)
			c.start(side.region, 1, kinds...)
			c.answers(10, side.region.name, kinds...) // workers have joined and hold IDs
			for _, end := range []struct {
				name string
				end  func(*member)
			}{{"SIGTERM", (*member).stop}, {"SIGKILL", (*member).Kill}} {
				c.enter("local, then " + end.name)
				elsewhere, here := answered(p.a...), answered(side.members...)
				c.answers(200, side.region.name, kinds...)
				if n := answered(p.a...) - elsewhere; n != 0 {
					t.Errorf("region a answered %d requests of %s's callers, although workers live there", n, side.region.name)
				}
				t.Logf("local: %d requests answered in %s, %d in a", answered(side.members...)-here, side.region.name, answered(p.a...)-elsewhere)

				c.enter("no workers, " + end.name)
				for _, m := range side.members {
					end.end(m)
				}
				elsewhere = answered(p.a...)
				c.answers(200, side.region.name, kinds...)
				t.Logf("%s: region a answered %d requests", end.name, answered(p.a...)-elsewhere)

				c.enter("workers back, " + end.name)
				side.members = s.workers(side.region)
				natstest.Eventually(t, "no request leaves the region", func() bool {
					elsewhere := answered(p.a...)
					c.answers(50, side.region.name, kinds...)
					return answered(p.a...) == elsewhere
				})
				c.since("local again")
			}
			c.check()
		})
	}
}

// TestCut: the links are cut under load and healed. Regions continue with what
// they have, no ID comes twice, strict tags ascend, and everything answers
// again.
func TestCut(t *testing.T) {
	tier.Release(t)
	s, p := startAll(t)
	c := newCallers(t)
	for _, r := range []*region{s.a, s.b, s.edge} {
		c.start(r, 1, kinds...)
		c.answers(100, r.name, kinds...)
	}
	for _, cut := range []struct {
		link  string
		far   *region // the side without the hub
		how   string
		begin func()
	}{
		{gatewayLink, s.b, "cut", func() { s.cut(gatewayLink) }},
		{leafLink, s.edge, "cut", func() { s.cut(leafLink) }},
		{gatewayLink, s.b, "frozen", func() { s.freeze(gatewayLink) }},
		{leafLink, s.edge, "frozen", func() { s.freeze(leafLink) }},
	} {
		stale := func() (n int) {
			for _, p := range append(slices.Clone(s.a.servers), cut.far.servers...) {
				n += strings.Count(p.Stderr.String(), "Stale Connection")
			}
			return n
		}
		before := stale()
		c.enter(cut.link + " " + cut.how)
		cut.begin()
		ofEdge := answered(p.edge[0])
		// Buffers last for a while, and a worker ID until its fence.
		c.answers(50, cut.far.name, trend, snowflake)
		c.sees(cut.far.name, strict, "503")
		if cut.far == s.b {
			c.sees(s.b.name, snowflake, "no responders")
		} else {
			natstest.Eventually(t, "the worker at the edge gives up its worker ID", func() bool {
				return p.edge[1].metric("idworker_lease_held", "") == 0
			})
			c.since("no worker ID of the hub at the edge")
		}
		if cut.how == "frozen" {
			natstest.Eventually(t, "a server closes the frozen link", func() bool { return stale() > before })
			c.since("closed by a server")
		}
		c.sees(cut.far.name, trend, "503")
		for _, r := range []*region{s.a, s.b, s.edge} {
			if r != cut.far {
				c.answers(50, r.name, kinds...)
			}
		}
		if cut.far == s.edge {
			c.answers(50, s.edge.name, snowflake)
			t.Logf("%s: the edge's own process answered %d requests", cut.link, answered(p.edge[0])-ofEdge)
		}

		c.enter(cut.link + " healed after " + cut.how)
		s.mend(cut.link)
		for _, kind := range kinds {
			c.sees(cut.far.name, kind, "")
		}
		for _, r := range []*region{s.a, s.b, s.edge} {
			c.answers(50, r.name, kinds...)
		}
		for _, m := range append(p.b, p.edge...) {
			natstest.Eventually(t, m.Name()+" has a worker ID again", func() bool { return m.metric("idworker_lease_held", "") == 1 })
		}
		c.since("worker IDs again")
	}
	c.check()
}

// TestDatacenters: two JetStream domains issue snowflake IDs at once, with one
// worker ID in different datacenters. No ID comes twice, while the link is cut
// and healed.
func TestDatacenters(t *testing.T) {
	tier.Release(t)
	s := newSite(t)
	s.startGateways(3, 1)
	s.provision()
	s.startEdge()
	const batch = 1000 // IDs of each millisecond
	s.a.serve("worker", append([]string{"--worker-id", "7"}, ofHub...)...)
	s.edge.serve("worker", append([]string{"--worker-id", "7"}, ofEdge...)...)
	c := newCallers(t)
	c.start(s.a, batch, snowflake)
	c.start(s.edge, batch, snowflake)
	issue := func(phase string) {
		c.enter(phase)
		c.answers(200, s.a.name, snowflake)
		c.answers(200, s.edge.name, snowflake)
	}
	issue("linked")
	s.cut(leafLink)
	issue("cut")
	s.mend(leafLink)
	issue("healed")
	c.check()
}
