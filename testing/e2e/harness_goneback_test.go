package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

// Segments are small, so that a store which goes back by a second loses many commits.
const (
	goneStep  = 5
	goneRate  = 150 // IDs a second, of each tag
	goneLoss  = 20  // commits of each tag that are lost, at least
	goneWait  = 500 * time.Millisecond
	goneTag   = "order"         // asked for all the time
	backAgain = 5 * time.Second // until IDs are granted again once the store is in reach
)

// wentBack is what a loader logs that has noticed it.
const wentBack = "the store went back"

// gone is an installation whose database goes back: two workers and two loaders, and callers
// who ask all the time.
type gone struct {
	url, dsn         string
	granted          *grants
	workers, loaders []*process
	load             *steady
	rounds           int
	resumed          []time.Duration
	replies          []reply
}

// roundTag is a tag of which only one round asks. That a tag went back is logged once, until
// it has been quiet for a while.
func roundTag(round int) string { return "round" + strconv.Itoa(round) }

// insertGone adds the rows of a number of rounds to an empty table.
func insertGone(t testing.TB, d database, db *dbtest.DB, rounds int) {
	t.Helper()
	db.Exec(t, d.Shapes["official"])
	insert(t, db, fmt.Sprintf("'%s', 1, %d", goneTag, goneStep))
	for round := range rounds {
		insert(t, db, fmt.Sprintf("'%s', 1, %d", roundTag(round), goneStep))
	}
}

// startGone starts an installation on a database, and callers.
func startGone(t testing.TB, dsn string) *gone {
	t.Helper()
	ns := natstest.Start(t)
	g := &gone{url: ns.URL(), dsn: dsn, granted: listen(t, ns.URL())}
	for range 2 {
		g.loaders = append(g.loaders, g.launch(t, "loader"))
		g.workers = append(g.workers, g.launch(t, "worker"))
	}
	for _, p := range slices.Concat(g.workers, g.loaders) {
		p.serving()
	}
	knownToAll(t, g.url, goneTag, len(g.workers))
	g.load = startSteady(t, g.url, goneTag, goneRate)
	return g
}

// launch starts a process. A worker is not told the store.
func (g *gone) launch(t testing.TB, role string) *process {
	step := strconv.Itoa(goneStep)
	s := settings{}
	if role == "loader" {
		s = on(g.dsn)
	}
	return s.launch(t, "serve", "--server", g.url, "--role", role, "--max-step", step, "--max-batch", step,
		"--wait", goneWait.String(), "--tag-refresh", "1s")
}

// goingBack is how a store goes back.
type goingBack struct {
	// forget makes it lose commits, and leaves it out of reach. It returns how many IDs of a tag
	// had been reserved in these.
	forget func(tag string) (lost int64)

	back func() // brings it into reach
}

// round has the store go back while callers ask for the tag of the round too. In the meantime
// a worker and a loader join that have had nothing so far, and so would take and give anything.
// The round ends when as many IDs were handed out since then as to pass everything twice that
// was lost. It reports whether a loader noticed it.
func (g *gone) round(t *testing.T, c goingBack) (noticed bool) {
	t.Helper()
	tag := roundTag(g.rounds)
	g.rounds++
	load := startSteady(t, g.url, tag, goneRate)
	natstest.Eventually(t, tag+" is served", func() bool { return load.ledger.ids.Load() > 4*goneStep })

	lost := c.forget(tag)
	joined := []*process{g.launch(t, "worker"), g.launch(t, "loader")}
	for _, p := range joined {
		p.serving()
	}
	c.back()
	since := time.Now()
	grants, always, own := g.granted.count(), g.load.count(), load.count()
	resumed := max(g.grantedAgain(t, g.load, always, grants, since), g.grantedAgain(t, load, own, grants, since))
	g.resumed = append(g.resumed, resumed)
	if resumed > backAgain {
		t.Errorf("round %d: IDs were granted again %v after the store was in reach, want %v", g.rounds, resumed, backAgain)
	}
	target := load.ledger.ids.Load() + 2*lost
	natstest.Eventually(t, "callers pass what was lost", func() bool { return load.ledger.ids.Load() >= target })
	load.finish()
	for _, p := range joined {
		p.stop(syscall.SIGTERM)
	}
	load.ledger.check(t)
	g.replies = append(g.replies, repliesOf(load)...)
	line := notice(tag, append(joined, g.loaders...))
	t.Logf("round %d: %d IDs of %s lost, granted again after %v; %s", g.rounds, lost, tag, resumed.Round(time.Millisecond), line)
	return line != ""
}

// grantedAgain waits for an ID of a load, not among its first from answers, from a segment that
// is not among the first grants, and returns how long after a time it came.
func (g *gone) grantedAgain(t *testing.T, load *steady, from, grants int, since time.Time) (d time.Duration) {
	t.Helper()
	natstest.Eventually(t, load.ledger.tag+" is granted again", func() bool {
		fresh := g.granted.since(grants)
		for _, a := range load.since(from) {
			if a.err == nil && inAny(fresh, load.ledger.tag, a.id) {
				d = a.received.Sub(since)
				return true
			}
		}
		return false
	})
	return d
}

// since returns the grants after the first n.
func (g *grants) since(n int) []loads.Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[n:len(g.all):len(g.all)]
}

func inAny(list []loads.Grant, tag string, id int64) bool {
	for _, grant := range list {
		if grant.Tag == tag && grant.First <= id && id < grant.End {
			return true
		}
	}
	return false
}

// notice is the line in which one of the processes says that it noticed the loss of a tag.
func notice(tag string, loaders []*process) string {
	for _, l := range loaders {
		if lines := l.errorsWith(wentBack, fmt.Sprintf("%q: %q", "tag", tag)); len(lines) > 0 {
			return lines[0]
		}
	}
	return ""
}

// errorsWith returns the errors that the process logged with all of these texts.
func (p *process) errorsWith(texts ...string) (found []string) {
	for line := range strings.Lines(p.stderr.String()) {
		all := strings.Contains(line, "\terror\t")
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// repliesOf are the answers with an ID.
func repliesOf(load *steady) (replies []reply) {
	for _, a := range load.since(0) {
		if a.err == nil {
			replies = append(replies, reply{load.ledger.tag, a.sent, a.received, []messages.Range{{First: a.id, Last: a.id}}})
		}
	}
	return replies
}

// finish ends everything. No process may have ended before, nothing may have been granted or
// handed out twice, and the store has to be above all that was granted.
func (g *gone) finish(t *testing.T, db *dbtest.DB) {
	t.Helper()
	g.load.finish()
	for _, p := range slices.Concat(g.workers, g.loaders) {
		if p.hasEnded() {
			t.Errorf("idworker %s ended", p.name)
		}
		p.stop(syscall.SIGTERM)
	}
	g.load.ledger.check(t)
	if t.Failed() {
		return // what follows would only repeat it
	}
	checkOrder(t, g.granted, append(g.replies, repliesOf(g.load)...))
	for tag, list := range g.granted.byTag(t) {
		if end, n := list[len(list)-1].End, maxID(t, db, tag); end > n {
			t.Errorf("%s was granted up to %d, but max_id is %d", tag, end, n)
		}
	}
	ids, errs := split(g.load.since(0))
	t.Logf("%s: %d IDs, %d errors, %d grants; granted again after %v", goneTag, ids, errs, g.granted.count(), g.resumed)
}
