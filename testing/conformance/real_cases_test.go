package conformance

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	ids "github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// realCases run against the built binary.
var realCases = []testCase{
	{name: "04 a worker that starts after the call", run: later(lateWorker)},
	{name: "13 the replies of a worker", run: later(contract)},
	{name: "14 workers and NATS come and go", run: later(faults)},
	{name: "17 a million IDs of a worker", run: later(million)},
}

// later leaves a case to make test-all.
func later(run func(t *testing.T, d *driver)) func(t *testing.T, d *driver) {
	return func(t *testing.T, d *driver) {
		tier.All(t)
		run(t, d)
	}
}

// installation is a NATS server, on which a case runs the binary.
type installation struct {
	*natstest.Node
	program process.Program
}

func startInstallation(t *testing.T) *installation {
	t.Helper()
	binary, err := idworker()
	if err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t, func(o *server.Options) { o.SyncAlways = true })
	return &installation{srv, process.Program{Binary: binary, Env: []string{"NATS_URL=" + srv.URL()}}}
}

// serve starts so many workers, and returns when they serve.
func (in *installation) serve(t *testing.T, n int) (workers []*process.Running) {
	t.Helper()
	for range n {
		workers = append(workers, in.program.Start(t, "serve"))
	}
	for _, w := range workers {
		w.AwaitLog(t, "\tserving\t")
	}
	return workers
}

// run runs a command, and returns its output.
func (in *installation) run(t *testing.T, args ...string) string {
	t.Helper()
	p, err := in.program.Run(args...)
	if err != nil {
		t.Fatal(err)
	}
	return p.Stdout.String()
}

// connect makes a client, and returns its name.
func (in *installation) connect(t *testing.T, d *driver) string {
	t.Helper()
	name := d.newName()
	d.must(t, op{"op": "connect", "client": name, "url": in.URL(), "timeout_ms": patience})
	return name
}

// patience is the timeout of calls in ms. It finds hangs.
const patience = 60_000

// next is the tag's lowest ID that is not granted.
func (in *installation) next(t *testing.T, tag string) int64 {
	t.Helper()
	var list struct {
		Tags []struct {
			Next int64 `json:",string"`
		}
	}
	if err := json.Unmarshal([]byte(in.run(t, "tag", "ls", tag, "--json")), &list); err != nil || len(list.Tags) != 1 {
		t.Fatalf("tag ls %s: %v, %v", tag, list, err)
	}
	return list.Tags[0].Next
}

// ledgerOf has the IDs of a tag. Its check fails the test for IDs that came twice
// or were not granted.
type ledgerOf struct {
	tag string
	ids.Ledger
}

// add adds the IDs of a result, and returns their number.
func (l *ledgerOf) add(t *testing.T, r result) (n int64) {
	t.Helper()
	ranges := rangesOf(t, r)
	for _, r := range ranges {
		n += r.Len()
	}
	if n > 0 {
		l.Add(l.tag, n, ranges...)
	}
	return n
}

func (l *ledgerOf) check(t *testing.T, in *installation) {
	t.Helper()
	l.Check(t)
	if next := in.next(t, l.tag); l.End(l.tag) > next {
		t.Errorf("an ID below %d, though IDs are granted below %d", l.End(l.tag), next)
	}
}

// rangesOf reads the ranges of a result.
func rangesOf(t *testing.T, r result) (ranges []messages.Range) {
	t.Helper()
	for _, text := range r.Ranges {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		var both [2]int64
		for i, number := range []string{first, last} {
			var err error
			if both[i], err = strconv.ParseInt(number, 10, 64); err != nil {
				t.Fatalf("range %q: %v", text, err)
			}
		}
		ranges = append(ranges, messages.Range{First: both[0], Last: both[1]})
	}
	return ranges
}

// lateWorker: calls begin while no worker runs.
func lateWorker(t *testing.T, d *driver) {
	in := startInstallation(t)
	in.run(t, "provision")
	in.run(t, "tag", "create", "order")
	c := in.connect(t, d)
	received := func() int64 {
		v, err := in.Running().Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.InMsgs
	}
	before := received()
	calls := []*pending{
		d.begin(t, op{"op": "next", "client": c, "tag": "order"}),
		d.begin(t, op{"op": "next_n", "client": c, "tag": "order", "n": 5}),
		d.begin(t, op{"op": "snowflake", "client": c}),
	}
	natstest.Eventually(t, "the calls retry", func() bool {
		return received() > before+6 || slices.ContainsFunc(calls, (*pending).isDone)
	})
	in.serve(t, 1)
	var all ledgerOf
	for i, n := range []int64{1, 5, 1} {
		if r := calls[i].wait(t); r.err != nil || i < 2 && all.add(t, r) != n {
			t.Errorf("%v: %v", calls[i].op, r)
		}
	}
	all.Check(t)
}

// contract: the worker's replies, as they are.
func contract(t *testing.T, d *driver) {
	in := startInstallation(t)
	in.serve(t, 1)
	in.run(t, "tag", "create", "order", "--step", "100000")
	in.run(t, "tag", "create", "ordered", "--order", "strict")
	in.run(t, "tag", "create", "--template", "chat.*")
	in.run(t, "tag", "create", "end", "--first", "9223372036854775707", "--step", "1")
	a, b := in.connect(t, d), in.connect(t, d)

	for _, c := range []struct {
		op   op
		code int
		kind string
		text string
	}{
		{op{"op": "next", "tag": "never.made"}, 404, "no_tag", "never.made"},
		{op{"op": "next_n", "tag": "order", "n": 10_001}, 400, "malformed", "10000"},
		{op{"op": "snowflake_n", "n": 10_001}, 400, "malformed", "10000"},
	} {
		c.op["client"] = a
		if r := d.do(t, c.op); r.kind() != c.kind || r.err.Code != c.code || r.err.Retryable || !strings.Contains(r.err.Text, c.text) {
			t.Errorf("%v: %v; want %s", c.op, r, c.kind)
		}
	}

	strict := d.newName()
	d.must(t, op{"op": "prefetch", "client": a, "name": strict, "tag": "ordered"})
	for range 2 {
		if r := d.do(t, op{"op": "take", "name": strict, "timeout_ms": patience}); r.kind() != "strict" || r.err.Code != 409 || r.err.Retryable {
			t.Errorf("take of a strict tag: %v", r)
		}
	}
	d.must(t, op{"op": "close_prefetch", "name": strict})

	// A slow worker answers two tries of a call, so some of the last hundred IDs
	// may be gaps.
	end := ledgerOf{tag: "end"}
	r := d.do(t, op{"op": "next", "client": a, "tag": "end"})
	for ; r.err == nil; r = d.do(t, op{"op": "next", "client": a, "tag": "end"}) {
		if n := end.add(t, r); n != 1 || rangesOf(t, r)[0].First < 9223372036854775707 {
			t.Fatalf("%v, want an ID of the last hundred", r)
		}
	}
	if r.kind() != "exhausted" || r.err.Code != 507 || r.err.Retryable || end.End("end") == 0 {
		t.Errorf("after the last ID: %v", r)
	}
	end.Check(t)

	for _, c := range []struct {
		op op
		n  int64
	}{
		{op{"op": "next_n", "tag": "order", "n": 10_000}, 10_000},
		{op{"op": "next", "tag": "chat.7"}, 1},
		{op{"op": "snowflake"}, 1},
		{op{"op": "snowflake_n", "n": 100}, 100},
	} {
		c.op["client"] = b
		if n := new(ledgerOf).add(t, d.must(t, c.op)); n != c.n {
			t.Errorf("%v: %d IDs, want %d", c.op, n, c.n)
		}
	}

	var last int64
	for i := range 20 {
		r := rangesOf(t, d.must(t, op{"op": "next", "client": []string{a, b}[i%2], "tag": "ordered"}))
		if r[0].First <= last {
			t.Errorf("ID %d after %d, of a strict tag", r[0].First, last)
		}
		last = r[0].First
	}
}

// million: each ID of a prefetcher comes once.
func million(t *testing.T, d *driver) {
	in := startInstallation(t)
	in.serve(t, 1)
	in.run(t, "tag", "create", "order", "--step", "100000")
	name := d.newName()
	d.must(t, op{"op": "prefetch", "client": in.connect(t, d), "name": name, "tag": "order"})
	r := d.must(t, op{"op": "take", "name": name, "n": 125_000, "callers": 8, "timeout_ms": patience})
	d.must(t, op{"op": "close_prefetch", "name": name})
	all := ledgerOf{tag: "order"}
	if n := all.add(t, r); n != 1_000_000 || len(r.Errors) > 0 {
		t.Errorf("%d IDs, errors %v", n, r.Errors)
	}
	all.check(t, in)
}

// faults: while calls are under way, workers are killed, frozen and rolled, and
// NATS is restarted. No call fails, and each ID comes once.
func faults(t *testing.T, d *driver) {
	in := startInstallation(t)
	workers := in.serve(t, 2)
	in.run(t, "tag", "create", "order", "--step", "100000")
	all := ledgerOf{tag: "order"}
	client, prefetcher := in.connect(t, d), d.newName()
	// A small buffer, so that takes need requests after each fault.
	d.must(t, op{"op": "prefetch", "client": client, "name": prefetcher, "tag": "order", "limit": 2000})
	const callers = 4
	busy := in.connect(t, d)
	underWay := d.begin(t, op{"op": "many", "client": busy, "tag": "order", "callers": callers, "calls": 1_000_000_000})

	// more returns when further calls have been answered.
	more := func(after string) {
		t.Helper()
		for _, c := range []struct {
			op op
			n  int64
		}{
			{op{"op": "many", "client": client, "tag": "order", "callers": callers, "calls": 10}, callers * 10},
			{op{"op": "take", "name": prefetcher, "callers": callers, "n": 5000, "timeout_ms": patience}, callers * 5000},
		} {
			if r := d.must(t, c.op); all.add(t, r) != c.n || len(r.Errors) > 0 {
				t.Errorf("after %s, %v: %v", after, c.op["op"], r)
			}
		}
	}
	more("the start")
	workers[0].Kill()
	more("a kill")
	workers[0] = in.serve(t, 1)[0]
	workers[1].Pause()
	more("a worker was frozen")
	workers[1].Resume()
	more("it was resumed")
	in.serve(t, 2)
	for _, old := range workers {
		old.Stop(t)
		more("a worker was rolled")
	}
	in.Restart()
	more("NATS was restarted")

	end, kind := op{"op": "cancel", "call": underWay.id}, "cancelled"
	if !d.has(t, "cancel") {
		end, kind = op{"op": "close", "client": busy}, "closed"
	}
	d.must(t, end)
	r := underWay.wait(t)
	if all.add(t, r) == 0 || r.err != nil || len(r.Errors) != 1 || r.Errors[kind] != callers {
		t.Errorf("calls under way: %v; want those that ended as %s at the end", r, kind)
	}
	d.must(t, op{"op": "close_prefetch", "name": prefetcher})
	all.check(t, in)
}
