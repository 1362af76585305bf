package conformance

import "testing"

// coalesceCases are about calls for one ID that share requests.
var coalesceCases = []testCase{
	{name: "21 a call alone is sent at once, alone", run: aloneAtOnce},
	{name: "21 calls share requests", needs: []string{"coalescing"}, run: shared},
	{name: "21 members of a refused batch call alone", needs: []string{"coalescing"}, run: refusedBatch},
	{name: "21 a member leaves", needs: []string{"coalescing", "cancel"}, run: memberLeaves},
	{name: "21 no call joins a request that was sent", run: joinsNoneSent},
}

// aloneAtOnce: without others, calls are requests for one ID.
func aloneAtOnce(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, serve)
	for k := range 5 {
		r := s.do(next(c, "order"))
		calls := s.calls(orderSubject)
		if wantOK(t, "a call", r); len(calls) != k+1 || calls[k].body != "" {
			t.Errorf("%d requests, the last %q, after %d calls; want one each, empty", len(calls), calls[len(calls)-1].body, k+1)
		}
	}
}

// crowd begins a call whose request is held, and 300 more.
func (s *scene) crowd(c, tag string) (first, others *pending) {
	s.t.Helper()
	s.on(segment+tag, silent)
	first = s.begin(next(c, tag))
	s.waitCalls(segment+tag, 1)
	return first, s.begin(op{"op": "many", "client": c, "tag": tag, "callers": 300, "calls": 1, "timeout_ms": callTimeout})
}

// shared: 300 calls at once need few requests. On a busy machine they do not
// begin at once, hence the bound.
func shared(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	first, others := s.crowd(c, "order")
	s.waitCalls(orderSubject, 2)
	s.on(orderSubject, serve)
	wantOK(t, "the first", s.await(first))
	r := s.await(others)
	if wantOK(t, "the others", r); countIDs(t, r) != 300 {
		t.Errorf("%d IDs, want 300", countIDs(t, r))
	}
	var requests int
	var ids int64
	for _, q := range s.calls(orderSubject) {
		if ids += q.n; requests == 0 && q.n != 1 {
			t.Errorf("the first request is for %d IDs, want 1", q.n)
		}
		if requests++; ids >= 301 {
			break // what follows are members of batches that were not answered in time
		}
	}
	if requests > 150 {
		t.Errorf("%d requests for the first %d IDs, want half of that at most", requests, ids)
	}
}

// refusedBatch: there may be IDs for some of the members.
func refusedBatch(t *testing.T, d *driver) {
	s := newScene(t, d)
	for _, trouble := range []step{refuse(400, "too many"), refuse(429, "too many"), refuse(503, "no IDs"), refuse(507, "used up")} {
		c := s.connect(nil) // a client remembers the limit
		tag := c
		first, others := s.crowd(c, tag)
		s.waitCalls(segment+tag, 2)
		s.follow(segment+tag, func(r *responder, q *request) {
			if q.n > 1 {
				trouble(r, q)
				return
			}
			serve(r, q)
		})
		wantOK(t, "the first", s.await(first))
		r := s.await(others)
		if wantOK(t, "the others", r); countIDs(t, r) != 300 {
			t.Errorf("%d IDs, want 300", countIDs(t, r))
		}
	}
}

// memberLeaves: calls of batches are cancelled, which the others do not notice.
func memberLeaves(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, silent)
	var calls []*pending
	for range 60 {
		calls = append(calls, s.begin(next(c, "order")))
	}
	s.waitCalls(orderSubject, 2)
	for i, call := range calls {
		if i%3 == 1 {
			s.d.must(t, op{"op": "cancel", "call": call.id})
			wantKind(t, "a call that left", s.await(call), "cancelled")
		}
	}
	s.on(orderSubject, serve)
	for i, call := range calls {
		if i%3 != 1 {
			wantOK(t, "a call that stayed", s.await(call))
		}
	}
}

// joinsNoneSent: an ID of a strict tag must be above all that were returned
// before the call began, so a request that was sent before cannot serve it.
func joinsNoneSent(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	s.on(orderSubject, silent)
	type begun struct {
		call *pending
		sent []*request // before it began
	}
	var calls []begun
	for range 5 {
		before := s.calls(orderSubject)
		for range 10 {
			calls = append(calls, begun{s.begin(next(c, "order")), before})
		}
		s.waitCalls(orderSubject, len(before)+1)
	}
	s.on(orderSubject, serve)
	for i, call := range calls {
		r := s.await(call.call)
		wantOK(t, "a call", r)
		for _, q := range call.sent {
			for _, granted := range parseRanges(t, s.grantedBy(q)) {
				for _, id := range parseRanges(t, r.Ranges) {
					if granted.First <= id.First && id.First <= granted.Last {
						t.Errorf("call %d: ID %v of a request that was sent before", i, id)
					}
				}
			}
		}
	}
	// So IDs of requests that are served in their order ascend for each caller.
	r := s.do(op{"op": "many", "client": c, "tag": "order", "callers": 10, "calls": 50, "timeout_ms": callTimeout})
	if wantOK(t, "10 callers", r); r.Descents > 0 || countIDs(t, r) != 500 {
		t.Errorf("%d IDs, %d of them below the previous of their caller; want 500, 0", countIDs(t, r), r.Descents)
	}
}
