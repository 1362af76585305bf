package conformance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

// copyCases are about copies of a process, and about buffers that are old, which
// may be copies.
var copyCases = []testCase{
	{name: "20 an old buffer is dropped", run: oldBuffer},
	{name: "20 a buffer below a minute is kept", run: freshBuffer},
	{name: "20 fork", needs: []string{"fork"}, run: forked},
	{name: "20 checkpoint and restore", needs: []string{"checkpoint", "cancel"}, run: restored},
	{name: "20 worker threads", needs: []string{"workers"}, run: workerThreads},
}

// oldBuffer: if the wall clock is more than a minute on, or was put back, the
// buffer may be a copy's, too. A timer looks once a second.
//
// 30 s back, not one: on a slow machine that much may have passed before.
func oldBuffer(t *testing.T, d *driver) {
	s := newScene(t, d.another(t))
	c := s.connect(nil)
	for tag, ms := range map[string]int64{"later": 61_000, "earlier": -30_000} {
		p, _ := s.fill(c, tag)
		old := s.isGranted()
		s.d.must(t, op{"op": "wall", "ms": ms})
		natstest.Eventually(t, "the timer drops the buffer", func() bool {
			return s.d.must(t, op{"op": "buffer", "name": p}).Buffered == 0
		})
		r := s.do(take(p, 4, 50))
		wantOK(t, tag, r)
		for _, ids := range parseRanges(t, r.Ranges) {
			if old(ids) {
				t.Errorf("%s: %v was buffered before", tag, ids)
			}
		}
	}
}

// freshBuffer: 30 s later the buffer is used. On a slow machine a test
// may take as long.
func freshBuffer(t *testing.T, d *driver) {
	s := newScene(t, d.another(t))
	c := s.connect(nil)
	p, buffered := s.fill(c, "order")
	old := s.isGranted()
	s.d.must(t, op{"op": "wall", "ms": 30_000})
	r := s.do(take(p, 1, buffered))
	wantOK(t, "takes", r)
	for _, ids := range parseRanges(t, r.Ranges) {
		if !old(ids) {
			t.Errorf("%v was not buffered", ids)
		}
	}
}

// inboxes are those of requests on a subject.
func (s *scene) inboxes(subject string) []string {
	found := make(map[string]bool)
	for _, q := range s.requests(subject) {
		found[q.reply[:strings.LastIndexByte(q.reply, '.')]] = true
	}
	return slices.Collect(maps.Keys(found))
}

// forked: a child takes IDs of its own, by a connection and an inbox of its own,
// and does not disturb its parent.
func forked(t *testing.T, d *driver) {
	s := newScene(t, d.another(t))
	c := s.connect(op{"own": true})
	fork := func(p string, n int) result { return s.do(op{"op": "fork", "name": p, "n": n}) }

	s.on(segment+"preloaded", serve)
	preloaded := s.prefetch(c, "preloaded", nil)
	for range 2 {
		wantOK(t, "a child of a parent that took nothing", fork(preloaded, 50))
	}
	wantOK(t, "its parent", s.do(take(preloaded, 1, 50)))

	before := slices.Collect(maps.Keys(s.connections()))
	p, _ := s.fill(c, "order")
	for range 2 {
		wantOK(t, "a child", fork(p, 500))
		wantOK(t, "its parent", s.do(take(p, 2, 500)))
	}
	if n := len(s.inboxes(orderSubject)); n != 3 {
		t.Errorf("a parent and two children have %d inboxes, want 3", n)
	}

	// A reply to the parent, held until the child has ended.
	s.on(segment+"held", silent)
	held := s.prefetch(c, "held", nil)
	waiting := s.begin(take(held, 1, 1))
	parents := s.waitCalls(segment+"held", 1)[0]
	s.follow(segment+"held", func(r *responder, q *request) {
		if q.reply != parents.reply {
			each(serve, func(r *responder, _ *request) { reply(nil, apart)(r, parents) })(r, q)
		}
	})
	wantOK(t, "the child", fork(held, 10))
	wantIDs(t, "the parent", s.await(waiting), apart)
	after := s.connections()
	for _, cid := range before {
		if after[cid] == nil {
			t.Errorf("the parent's connection %d has ended", cid)
		}
	}
}

// restored: at a checkpoint the buffer is dropped and the connection closed
// before it returns. A restored process
// requests IDs again.
func restored(t *testing.T, d *driver) {
	s := newScene(t, d.another(t))
	c := s.connect(op{"own": true})
	p, _ := s.fill(c, "order")
	for range 2 {
		s.on(orderSubject, silent)
		known := len(s.calls(orderSubject))
		waiting := s.begin(take(p, 1, 1_000_000)) // more than is buffered
		s.waitCalls(orderSubject, known+1)
		held := s.calls(orderSubject)
		s.d.must(t, op{"op": "checkpoint"})
		natstest.Eventually(t, "the connection is closed", func() bool { return len(s.connections()) == 0 })
		if b := s.d.must(t, op{"op": "buffer", "name": p}); b.Buffered > 0 {
			t.Errorf("%d IDs are buffered after a checkpoint", b.Buffered)
		}
		s.d.must(t, op{"op": "cancel", "call": waiting.id})
		s.await(waiting)
		for _, q := range held {
			s.answer(q, serve)
		}
		old := s.isGranted()
		s.on(orderSubject, serve)
		s.d.must(t, op{"op": "restore"})
		r := s.do(take(p, 2, 500))
		wantOK(t, "after restore", r)
		for _, ids := range parseRanges(t, r.Ranges) {
			if old(ids) {
				t.Errorf("%v was granted before it was restored", ids)
			}
		}
		wantOK(t, "a call after restore", s.do(next(c, "order")))
		s.quiesce(p)
	}
	if n := len(s.inboxes(orderSubject)); n < 3 {
		t.Errorf("%d inboxes after two checkpoints, want 3", n)
	}

	// A client cannot close a connection that it did not make.
	s.connect(op{"own": false})
	if r := s.do(op{"op": "checkpoint"}); r.err == nil {
		t.Error("a checkpoint with a connection that the client did not make: want an error")
	}
}

// workerThreads: a thread has a client of its own, so it takes no ID that the
// main thread has buffered, and reads no reply to another thread.
func workerThreads(t *testing.T, d *driver) {
	s := newScene(t, d)
	c := s.connect(nil)
	p, _ := s.fill(c, "order")
	before := len(s.calls(orderSubject))
	s.on(orderSubject, silent)
	threads := s.begin(take(p, 4, 1000).with("workers", true))
	s.waitCalls(orderSubject, before+4) // all wait at once
	main := s.begin(take(p, 2, 1000))
	s.on(orderSubject, serve)
	r := s.await(threads)
	if wantOK(t, "takes of threads", r); countIDs(t, r) != 4000 {
		t.Errorf("%d IDs, want 4000", countIDs(t, r))
	}
	wantOK(t, "takes of the main thread", s.await(main))
	if n := len(s.inboxes(orderSubject)); n != 5 {
		t.Errorf("4 threads and the main thread have %d inboxes, want 5", n)
	}
	wantOK(t, "a call of the main thread, after the others have ended", s.do(next(c, "order")))
}
