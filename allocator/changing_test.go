package allocator_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// changing is two workers on one row of a store, whose step is changed by hand
// while loads are in flight. Each worker gets it with its grants.
type changing struct {
	workers []*worker
	next    int64 // max_id
	step    int64 // in the row
	loads   []event
	grants  []granted
	handed  map[int64]bool
}

// worker is either of the two.
type worker struct {
	*harness
	open    []*outcome
	highest int64
	judged  uint64 // the latest load
	granted int64  // the end of its highest grant; 0: the tag is unknown to it
	known   int64  // the configured step of that grant
	wanted  int64  // the IDs of all requests
}

type event struct {
	w *worker
	allocator.Load
}

type granted struct {
	w    *worker
	seq  uint64
	s    store.Segment
	step int64
}

const changingCeiling = 1000

func newChanging() *changing {
	c := &changing{next: 1, step: 8, handed: map[int64]bool{}}
	for range 2 {
		c.workers = append(c.workers, &worker{harness: newHarness(allocator.Config{MaxStep: changingCeiling})})
	}
	return c
}

// deliver brings a grant to its worker. If it is not late, its step counts from
// then on.
func (g granted) deliver(t *rapid.T) {
	w := g.w
	w.step = g.step
	v := w.Grant("order", g.seq, g.s)
	switch {
	case v.Outcome == allocator.Below:
		t.Fatalf("%v of a store that did not go back: %+v", g.s, v)
	case w.granted == 0 && v.Outcome != allocator.Used, g.s.First < w.granted:
		return
	}
	w.granted, w.known = g.s.End, g.step
}

// checkStep checks the step of a load that the worker requests for the first
// time: the configured step, or what fills the buffer and serves who waits.
func (w *worker) checkStep(t *rapid.T, step int64) {
	least, most := min(w.known, changingCeiling), min(max(w.known, w.wanted)+w.wanted, changingCeiling)
	if step < least || step > most {
		t.Fatalf("a load of %d, want %d to %d; the step is set to %d", step, least, most, w.known)
	}
}

// collect records the new loads and answers.
func (c *changing) collect(t *rapid.T) {
	for _, w := range c.workers {
		for _, l := range w.asked {
			if l.First != (w.granted == 0) || l.First != (l.Step == 0) {
				t.Fatalf("asked for %+v, after grants up to %d", l, w.granted)
			}
			if l.Seq > w.judged && !l.First {
				w.judged = l.Seq
				w.checkStep(t, l.Step)
			}
			c.loads = append(c.loads, event{w, l})
		}
		w.asked = nil
		open := w.open[:0]
		for _, o := range w.open {
			if o.answered == 0 {
				open = append(open, o)
			}
			for _, s := range o.ids {
				for id := s.First; id < s.End; id++ {
					c.record(t, w, id)
				}
			}
		}
		w.open = open
	}
}

func (c *changing) record(t *rapid.T, w *worker, id int64) {
	if c.handed[id] {
		t.Fatalf("%d was handed out twice", id)
	}
	if id <= w.highest || id >= c.next {
		t.Fatalf("%d after %d, with %d IDs reserved", id, w.highest, c.next-1)
	}
	c.handed[id], w.highest = true, id
}

// reserve serves the first n loads with a write, as a loader does, and sends
// the grants. The size is the step in the event, or the row's for a first load.
func (c *changing) reserve(n int) {
	var total int64
	for i, l := range c.loads[:n] {
		if l.First {
			c.loads[i].Step = min(c.step, changingCeiling)
		}
		total += max(c.loads[i].Step, l.Want)
	}
	s := store.Segment{First: c.next, End: c.next + total}
	c.next = s.End
	for _, l := range c.loads[:n] {
		var own store.Segment
		own, s = s.Cut(max(l.Step, l.Want))
		c.grants = append(c.grants, granted{l.w, l.Seq, own, c.step})
	}
	c.loads = c.loads[n:]
}

// TestStepsChangeBetweenLoads: a step that is raised or lowered in the table
// applies to the load after the next grant. No two ranges overlap, in any order
// of changes, loads and grants.
func TestStepsChangeBetweenLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChanging()
		anyone := func(t *rapid.T) *worker { return c.workers[rapid.IntRange(0, 1).Draw(t, "worker")] }
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				w, n := anyone(t), rapid.Int64Range(1, 30).Draw(t, "n")
				w.wanted += n
				w.open = append(w.open, w.request("order", n))
			},
			"set step": func(t *rapid.T) { c.step = rapid.Int64Range(1, 2*changingCeiling).Draw(t, "step") },
			"reserve": func(t *rapid.T) {
				if len(c.loads) == 0 {
					t.Skip("no load")
				}
				c.reserve(rapid.IntRange(1, len(c.loads)).Draw(t, "together"))
			},
			"grant": func(t *rapid.T) {
				if len(c.grants) == 0 {
					t.Skip("no grant")
				}
				i := rapid.IntRange(0, len(c.grants)-1).Draw(t, "grant")
				g := c.grants[i]
				c.grants = append(c.grants[:i], c.grants[i+1:]...)
				g.deliver(t)
			},
			"not now": func(t *rapid.T) {
				if len(c.loads) == 0 {
					t.Skip("no load")
				}
				c.loads[0].w.NotNow("order", c.loads[0].Seq)
			},
			"time passes": func(t *rapid.T) {
				by := time.Duration(rapid.Int64Range(0, int64(allocator.DefaultReAsk)).Draw(t, "by"))
				for _, w := range c.workers {
					w.now += by
					w.Tick()
				}
			},
			"much time passes": func(*rapid.T) {
				for _, w := range c.workers {
					w.now += time.Hour
					w.Tick()
				}
			},
			"": c.collect,
		})
	})
}
