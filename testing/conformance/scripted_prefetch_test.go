package conformance

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
)

// prefetchCases are about prefetchers.
var prefetchCases = []testCase{
	{name: "16 nothing is sent before the first take", run: lazyPrefetch},
	{name: "16 ready asks for as many", needs: []string{"ready"}, run: readyAsks},
	{name: "16 at most 16 requests, and the limit", run: boundedPrefetch},
	{name: "16 a batch is halved, unseen", run: halvedBatch},
	{name: "17 a million IDs by 8 callers, each once", run: millionIDs},
	{name: "18 a final error ends all waits", run: errorWhileWaiting},
	{name: "18 an error while IDs are buffered is not seen", run: errorWhileBuffered},
	{name: "18 the reason at the deadline of a take", run: takeReasons},
	{name: "18 a cancelled take is not seen", needs: []string{"cancel"}, run: cancelledTakes},
	{name: "18 the last ID", run: lastID},
	{name: "19 closing a prefetcher ends takes", run: closedPrefetch},
	{name: "19 closing a prefetcher under load", run: closedUnderLoad},
	{name: "19 take without waiting", needs: []string{"ready"}, run: takeNow},
}

const orderSubject = "ids.segment.order"

// lazyPrefetch: a prefetcher that was only made has sent nothing. Its first
// request is for one ID.
func lazyPrefetch(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, serve)
	p := s.prefetch(c, "order", nil)
	s.fence(c)
	s.pass(c)
	if n := len(s.requests(orderSubject)); n > 0 {
		t.Fatalf("%d requests before the first take", n)
	}
	r := s.do(take(p, 1, 1))
	first := s.request(orderSubject, 1)
	s.wantServed("the first take", r, first)
	if first.body != "" {
		t.Errorf("the first request has the body %q, want it empty, for one ID", first.body)
	}
}

// readyAsks: ready counts as so many waiters.
func readyAsks(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, serve)
	p := s.prefetch(c, "order", nil)
	s.d.must(t, op{"op": "ready", "name": p, "n": 100, "timeout_ms": callTimeout})
	if b := s.d.must(t, op{"op": "buffer", "name": p}); b.Buffered < 100 {
		t.Errorf("%d IDs are buffered, want 100", b.Buffered)
	}
	if q := s.request(orderSubject, 1); q.n != 100 {
		t.Errorf("the first request is for %d IDs, want 100", q.n)
	}
	wantOK(t, "takes without waiting", s.do(take(p, 1, 100).with("mode", "now")))
}

// gauge measures the calls that wait for a reply.
type gauge struct {
	open          map[string]int64 // IDs requested, by reply subject
	done          map[string]bool
	most, mostIDs int64
	largest       int64 // request
}

func newGauge() *gauge { return &gauge{open: make(map[string]int64), done: make(map[string]bool)} }

// hold counts a request as open.
func (g *gauge) hold(_ *responder, q *request) {
	g.largest = max(g.largest, q.n)
	if g.done[q.reply] { // a further try, sent before the reply came
		return
	}
	g.open[q.reply] = q.n
	var ids int64
	for _, n := range g.open {
		ids += n
	}
	g.most, g.mostIDs = max(g.most, int64(len(g.open))), max(g.mostIDs, ids)
}

// serve counts a request, and serves it.
func (g *gauge) serve(r *responder, q *request) {
	g.hold(r, q)
	if !g.done[q.reply] {
		delete(g.open, q.reply)
		g.done[q.reply] = true
		serve(r, q)
	}
}

// boundedPrefetch: however many callers wait, 16 requests are in flight at most,
// for limit IDs at most, and each for max_batch at most.
func boundedPrefetch(t *testing.T, d *driver) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newScene(t, d)
	c := s.connect(nil)
	tests := map[string]*struct {
		limit, maxBatch, requests int64
		gauge                     *gauge
		taken                     *pending
	}{
		"small.batches": {50, 2, 16, newGauge(), nil},
		"small.limit":   {3, 10_000, 3, newGauge(), nil},
		"large.limit":   {1_000_000, 7, 16, newGauge(), nil},
	}
	for tag, test := range tests {
		s.on(segment+tag, test.gauge.hold)
		p := s.prefetch(c, tag, op{"limit": test.limit, "max_batch": test.maxBatch})
		test.taken = s.begin(take(p, 100, 5))
		s.waitCalls(segment+tag, int(test.requests))
	}
	s.pass(c)
	for tag, test := range tests {
		if n := len(s.calls(segment + tag)); int64(n) != test.requests {
			t.Errorf("%s: %d requests in flight while 100 callers wait, want %d", tag, n, test.requests)
		}
		s.follow(segment+tag, func(r *responder, q *request) {
			if random.IntN(10) == 0 {
				test.gauge.hold(r, q)
				return
			}
			test.gauge.serve(r, q)
		})
	}
	for tag, test := range tests {
		r := s.await(test.taken)
		if wantOK(t, tag, r); countIDs(t, r) != 500 {
			t.Errorf("%s: %d IDs, want 500", tag, countIDs(t, r))
		}
		s.locked(func() {
			if g := test.gauge; g.most > 16 || g.mostIDs > test.limit || g.largest > test.maxBatch {
				t.Errorf("%s: %d requests in flight, for %d IDs, the largest for %d; want at most 16, %d, %d",
					tag, g.most, g.mostIDs, g.largest, test.limit, test.maxBatch)
			}
		})
	}
}

// halvedBatch: a worker with a smaller limit refuses larger batches, which no
// caller notices.
func halvedBatch(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	var refused, last int64
	s.follow(orderSubject, func(r *responder, q *request) {
		if last = q.n; q.n > 100 {
			refused++
			refuse(400, "count is too large, allowed is a decimal from 1 to 100")(r, q)
			return
		}
		serve(r, q)
	})
	p := s.prefetch(c, "order", op{"runway_ms": 10_000})
	r := s.do(take(p, 8, 5000))
	if wantOK(t, "takes", r); countIDs(t, r) != 40_000 {
		t.Errorf("%d IDs, want 40000", countIDs(t, r))
	}
	s.locked(func() {
		if refused == 0 || last > 100 {
			t.Errorf("%d batches refused, the last request for %d; want some, at most 100", refused, last)
		}
	})
}

// millionIDs: callers that take at once get each ID once, in few requests.
// Only make test-all takes a million.
func millionIDs(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, serve)
	each := int64(10_000)
	if tier.IsAll() {
		each = 125_000
	}
	r := s.do(take(s.prefetch(c, "order", nil), 8, each))
	if wantOK(t, "takes", r); countIDs(t, r) != 8*each {
		t.Errorf("%d IDs, want %d", countIDs(t, r), 8*each)
	}
	if n := len(s.calls(orderSubject)); n > 10_000 {
		t.Errorf("%d requests, want at most 10000", n)
	}
}

// quiesce waits until a prefetcher has no request in flight, and returns the
// number of IDs that it has.
func (s *scene) quiesce(p string) (buffered int64) {
	s.t.Helper()
	natstest.Eventually(s.t, "no request in flight", func() bool {
		b := s.d.must(s.t, op{"op": "buffer", "name": p})
		buffered = b.Buffered
		return b.InFlight == 0
	})
	return buffered
}

// errorWhileWaiting: all callers that wait get an error that a retry cannot
// cure. Then a single request finds out whether the trouble
// is over.
func errorWhileWaiting(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	troubles := map[string]step{
		"no_tag": refuse(404, "no such tag"), "exhausted": refuse(507, "used up"), "strict": refuse(409, "strict"),
		"bad_reply": reply(nil, "0"), "malformed": refuse(400, "malformed"), "code": refuse(500, "broken"),
	}
	prefetchers, waiting, before := make(map[string]string), make(map[string]*pending), make(map[string]int)
	for kind, trouble := range troubles {
		s.on(segment+kind, silent)
		var options op
		if kind == "malformed" { // of a larger batch, it is not final
			options = op{"max_batch": 1}
		}
		p := s.prefetch(c, kind, options)
		prefetchers[kind], waiting[kind] = p, s.begin(take(p, 50, 1))
		s.waitCalls(segment+kind, 16)
		s.on(segment+kind, trouble)
	}
	for kind, p := range prefetchers {
		wantErrors(t, kind, s.await(waiting[kind]), map[string]int64{kind: 50})
		s.quiesce(p)
		s.on(segment+kind, silent)
		before[kind] = len(s.calls(segment + kind))
		waiting[kind] = s.begin(take(p, 50, 1))
		s.waitCalls(segment+kind, before[kind]+1)
	}
	s.pass(c)
	for kind := range prefetchers {
		if n := len(s.calls(segment+kind)) - before[kind]; n != 1 {
			t.Errorf("%s: %d requests in flight after an error, want 1", kind, n)
		}
		s.on(segment+kind, serve)
		r := s.await(waiting[kind])
		if wantOK(t, kind+", then served", r); countIDs(t, r) != 50 {
			t.Errorf("%s, then served: %d IDs, want 50", kind, countIDs(t, r))
		}
	}
}

// fill makes a prefetcher that has IDs in stock, and nothing in flight.
func (s *scene) fill(c, tag string) (p string, buffered int64) {
	s.t.Helper()
	s.on(segment+tag, serve)
	p = s.prefetch(c, tag, op{"runway_ms": 10_000})
	wantOK(s.t, "filling", s.do(take(p, 4, 500)))
	if buffered = s.quiesce(p); buffered == 0 {
		s.t.Fatal("nothing is buffered after 2000 takes")
	}
	return p, buffered
}

// errorWhileBuffered: IDs in the buffer are used although requests for more
// fail.
func errorWhileBuffered(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	p, buffered := s.fill(c, "order")
	s.on(orderSubject, refuse(404, "no such tag"))
	r := s.do(take(p, 1, buffered))
	if wantOK(t, "buffered IDs", r); countIDs(t, r) != buffered {
		t.Errorf("%d IDs of %d buffered", countIDs(t, r), buffered)
	}
	wantKind(t, "the next", s.do(take(p, 1, 1)), "no_tag")
	s.on(orderSubject, serve)
	wantOK(t, "served again", s.do(take(p, 1, 1)))
}

// takeReasons: a take that reaches its deadline has the reason why requests were
// not answered. Later takes do not see that.
func takeReasons(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	takes := make(map[string]*pending)
	names := make(map[string]string)
	for reason, trouble := range transients {
		s.on(segment+reason, trouble)
		names[reason] = s.prefetch(c, reason, nil)
		takes[reason] = s.begin(take(names[reason], 1, 1).with("timeout_ms", shortTimeout))
	}
	for reason, waiting := range takes {
		wantTimeout(t, reason, s.await(waiting), reason)
		s.on(segment+reason, serve)
		wantOK(t, reason+", then served", s.do(take(names[reason], 1, 1)))
	}
}

// cancelledTakes: a take that is cancelled while another waits ends alone.
func cancelledTakes(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	for reason, trouble := range transients {
		s.on(segment+reason, trouble)
		p := s.prefetch(c, reason, nil)
		waiting, cancelled := s.begin(take(p, 1, 1)), s.begin(take(p, 1, 1))
		s.waitCalls(segment+reason, 1)
		s.d.must(t, op{"op": "cancel", "call": cancelled.id})
		wantKind(t, reason+", cancelled", s.await(cancelled), "cancelled")
		s.on(segment+reason, serve)
		wantOK(t, reason+", the other", s.await(waiting))
		wantOK(t, reason+", a later take", s.do(take(p, 1, 1)))
	}
}

// lastID: after 2^63−1 comes an error, not a number that has wrapped.
func lastID(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	usedUp := false
	s.follow(orderSubject, func(r *responder, q *request) {
		switch {
		case usedUp:
			refuse(507, "used up")(r, q)
		case q.n == 1:
			serve(r, q)
		default:
			usedUp = true
			reply(nil, messages.Range{First: math.MaxInt64 - q.n + 1, Last: math.MaxInt64}.String())(r, q)
		}
	})
	p := s.prefetch(c, "order", op{"runway_ms": 10_000})
	var last int64
	natstest.Eventually(t, "only errors, after the last ID", func() bool {
		r := s.do(take(p, 4, 1000))
		ids := parseRanges(t, r.Ranges)
		for _, r := range ids {
			last = max(last, r.Last)
		}
		return len(ids) == 0 && last == math.MaxInt64 && r.Errors["exhausted"] == 4
	})
}

// closedPrefetch: after close there is no ID, not even one that comes late.
func closedPrefetch(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, silent)
	p := s.prefetch(c, "order", nil)
	waiting := s.begin(take(p, 20, 1))
	s.waitCalls(orderSubject, 16)
	s.d.must(t, op{"op": "close_prefetch", "name": p})
	wantErrors(t, "callers that wait", s.await(waiting), map[string]int64{"closed": 20})
	s.fence(c)
	before := len(s.requests(orderSubject))
	s.pass(c)
	for _, q := range s.calls(orderSubject) {
		s.answer(q, serve)
	}
	wantKind(t, "after close", s.do(take(p, 1, 1)), "closed")
	s.d.must(t, op{"op": "close_prefetch", "name": p})
	s.fence(c)
	if n := len(s.requests(orderSubject)) - before; n > 0 {
		t.Errorf("%d requests after close", n)
	}

	p, _ = s.fill(c, "buffered")
	s.d.must(t, op{"op": "close_prefetch", "name": p})
	wantKind(t, "a take of IDs that were buffered", s.do(take(p, 1, 1)), "closed")
	wantOK(t, "the client", s.do(next(c, "buffered")))
}

// closedUnderLoad: close ends callers that take as fast as they can.
func closedUnderLoad(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, serve)
	p := s.prefetch(c, "order", op{"limit": 100}) // a driver keeps all IDs
	load := s.begin(take(p, 8, 1<<40))
	s.waitCalls(orderSubject, 20)
	var closing []*pending
	for range 2 {
		closing = append(closing, s.begin(op{"op": "close_prefetch", "name": p}))
	}
	for _, closed := range closing {
		wantOK(t, "close", s.await(closed))
	}
	s.fence(c)
	before := len(s.requests(orderSubject))
	wantErrors(t, "callers under load", s.await(load), map[string]int64{"closed": 8})
	s.pass(c)
	if n := len(s.requests(orderSubject)) - before; n > 0 {
		t.Errorf("%d requests after close", n)
	}
}

// takeNow: a take that does not wait has an error if the buffer is empty, which
// is filled then.
func takeNow(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, serve)
	p := s.prefetch(c, "order", nil)
	now := take(p, 1, 1).with("mode", "now")
	if r := s.do(now); r.kind() != "empty" || !r.err.Retryable {
		t.Errorf("an empty buffer: %v; want the kind empty, retryable", r)
	}
	s.waitCalls(orderSubject, 1)
	s.d.must(t, op{"op": "ready", "name": p, "n": 10, "timeout_ms": callTimeout})
	wantOK(t, "after ready", s.do(take(p, 1, 10).with("mode", "now")))
	s.on(orderSubject, silent)
	wantTimeout(t, "ready in vain", s.do(op{"op": "ready", "name": p, "n": 100_000, "timeout_ms": shortTimeout}), "no_reply")
}
