package e2e

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/dbtest"
	"github.com/idworker/idworker/testing/natstest"
)

// The load in these tests: a segment lasts for two seconds, so that one runs out while
// a test watches, and a request waits for half a second.
const (
	outageRate = 200
	outageStep = "400"
	outageWait = 500 * time.Millisecond
)

// leafPause keeps Leaf's servers from using up the machine.
const leafPause = 50 * time.Millisecond

// resumeWithin is how long it may take until IDs are there again when the database is:
// a third of a second as a rule, but test hosts are small and shared.
const resumeWithin = 10 * time.Second

// outage is one way in which a database goes away.
type outage struct {
	name       string
	begin, end func()
	least      time.Duration // how long it lasts, if requests do not fail before
	slow       bool          // the database answers, though too late for new connections
}

// outagesOf lists what happens to a server and to the proxy in front of it.
func outagesOf(d database, srv *dbtest.Server, proxy *dbtest.Proxy, leaf *leafServers) []outage {
	// Longer than statements, the connection's own timeouts and the load stream wait for
	// anything: events in it are dropped after 30 s.
	const paused = 35 * time.Second
	return []outage{
		{name: "paused", begin: srv.Pause, end: srv.Resume, least: paused},
		{name: "killed", begin: srv.Kill, end: srv.Restart},
		{name: "refused", begin: proxy.Refuse, end: proxy.Accept},
		{name: "slow", begin: func() { proxy.Delay(time.Second) }, end: func() { proxy.Delay(0) }, least: 8 * time.Second, slow: true},
		{name: "slow, no connection left", begin: func() { proxy.Delay(time.Second); proxy.Refuse(); proxy.Accept() },
			end: func() { proxy.Delay(0) }},
		// Leaf at full speed, so that whoever looks up the outcome of a statement finds that
		// the row has changed since.
		{name: "answers lost", begin: func() { leaf.pause.Store(0); proxy.CutAnswers(d.raise) },
			end: func() { proxy.CutAnswers(""); leaf.pause.Store(int64(leafPause)) }},
	}
}

// TestMemoryServesWhileStoreIsAway takes real databases away from two loaders, one of which
// answers requests too, while requests keep coming and Leaf's servers work on the same row.
func TestMemoryServesWhileStoreIsAway(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			testOutages(t, d)
		})
	}
}

func testOutages(t *testing.T, d database) {
	const tag = "order"
	srv := d.start(t)
	srv.Exec(t, d.Shapes["official"])
	insert(t, srv.DB, "'"+tag+"', 1, "+outageStep)
	proxy := dbtest.StartProxy(t, srv.Addr())
	ns := natstest.Start(t)
	granted := listen(t, ns.URL())

	args := []string{"--wait", outageWait.String(), "--max-step", outageStep, "--max-batch", outageStep, "--tag-refresh", "1s"}
	w := watched{
		answers: on(srv.DSNVia(proxy)).startWorker(t, ns.URL(), args...),
		loader:  on(srv.DSNVia(proxy)).startWorker(t, ns.URL(), append(args, "--role", "loader")...),
	}
	knownToAll(t, ns.URL(), tag, 1)
	w.load = startSteady(t, ns.URL(), tag, outageRate)
	leaf := d.startLeaf(t, srv.SQL(), tag, 1, leafPause, &w.load.ledger)

	for _, o := range outagesOf(d, srv, proxy, leaf) {
		w.through(t, ns.URL(), o)
	}
	w.load.finish()
	leaf.stop()
	w.answers.stop(syscall.SIGTERM)
	w.loader.stop(syscall.SIGTERM)

	w.load.ledger.check(t)
	end := maxID(t, srv.DB, tag)
	var replies []reply
	for _, a := range w.load.since(0) {
		if a.err != nil {
			continue
		}
		if a.id >= end {
			t.Errorf("ID %d, but max_id is %d", a.id, end)
		}
		replies = append(replies, reply{tag, a.sent, a.received, []messages.Range{{First: a.id, Last: a.id}}})
	}
	checkOrder(t, granted, replies)
	if proxy.Cuts() == 0 {
		t.Error("no answer was cut off")
	}
	ids, errs := split(w.load.since(0))
	t.Logf("%d IDs, %d errors, %d segments granted, %d of Leaf's, %d answers cut off, max_id %d",
		ids, errs, len(granted.all), leaf.segments.Load(), proxy.Cuts(), end)
}

// watched is what a test watches during outages.
type watched struct {
	answers, loader *process
	load            *steady
}

// through goes through one outage.
func (w *watched) through(t *testing.T, url string, o outage) {
	t.Helper()
	conn := connect(t, url)
	w.calm(t)
	logs := map[*process]int{w.answers: len(w.answers.stderr.String()), w.loader: len(w.loader.stderr.String())}

	before := w.load.count()
	memory := 0 // how many IDs the worker has, at least
	for _, s := range stats(t, conn, 1) {
		memory = int(s.Tags[0].Left)
	}
	o.begin()
	began := time.Now()
	natstest.Eventually(t, 2*time.Minute, o.name+": memory runs out", func() bool {
		_, errs := split(w.load.since(before))
		return time.Since(began) >= o.least && (errs >= 20 || o.slow) || w.load.ledger.twice.Load() > 0
	})
	during := w.load.since(before)
	o.end()
	returned := time.Now()
	resumed := w.nextID(t, returned)
	w.calm(t)

	first := firstError(during)
	w.load.ledger.check(t)
	if first >= 0 && first < memory {
		t.Errorf("%s: after %d IDs %v, although there were %d in memory", o.name, first, during[first].err, memory)
	}
	longest := time.Duration(0)
	for _, a := range w.load.since(before) {
		waited := a.received.Sub(a.sent)
		if a.err == nil {
			continue
		}
		longest = max(longest, waited)
		if !errors.Is(a.err, messages.ErrUnavailable) || waited < outageWait {
			t.Errorf("%s: after %v %v, want a 503 after %v", o.name, waited, a.err, outageWait)
		}
	}
	fails := 0
	for p, skip := range logs {
		lines := p.logged(skip)
		fails += lines["store fails"]
		if lines["store fails"] != lines["store works again"] {
			t.Errorf("%s: a process logged outages and recoveries %v", o.name, lines)
		}
		for line, n := range lines {
			if n > 1 {
				t.Errorf("%s: a process logged %q %d times", o.name, line, n)
			}
		}
		t.Logf("%s: log lines %v", o.name, lines)
	}
	if fails == 0 && !o.slow {
		t.Errorf("%s: no process logged the outage", o.name)
	}
	ids, errs := split(during)
	t.Logf("%s: %d IDs in memory, %d handed out before the first of %d errors; the latest after %v; lasted %v, served again after %v",
		o.name, memory, ids, errs, longest.Round(time.Millisecond), returned.Sub(began).Round(time.Millisecond), resumed.Round(time.Millisecond))
}

// nextID waits for an ID, and returns how long after the given time it came.
func (w *watched) nextID(t *testing.T, after time.Time) (d time.Duration) {
	t.Helper()
	from := w.load.count()
	natstest.Eventually(t, resumeWithin, "IDs again", func() bool {
		for _, a := range w.load.since(from) {
			if a.err == nil {
				d = a.received.Sub(after)
				return true
			}
		}
		return false
	})
	return d
}

// calm waits until a second's worth of requests succeeded in a row, and every outage
// that was logged has ended in the log.
func (w *watched) calm(t *testing.T) {
	t.Helper()
	from := w.load.count()
	natstest.Eventually(t, time.Minute, "all is well", func() bool {
		for _, p := range []*process{w.answers, w.loader} {
			if !p.after("store fails", "store works again") || !p.after("tags are not mirrored", "tags are mirrored again") {
				return false
			}
		}
		answers := w.load.since(from)
		return len(answers) >= outageRate && firstError(answers[len(answers)-outageRate:]) < 0
	})
}
