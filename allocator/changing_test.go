package allocator_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// changing is two workers on one row of a store, whose step is changed by hand. Each learns
// of that some time later, as from the tag directory, while loads are on their way.
type changing struct {
	workers []*worker
	next    int64 // max_id
	step    int64 // what the row says
	loads   []event
	grants  []granted
	handed  map[int64]bool
}

// worker is one of them, with what it knows.
type worker struct {
	*harness
	open    []*outcome
	highest int64
	known   int64 // the configured step it was told last
	grown   int64 // what its next step may be 16 times or half of; 0 before its first load
}

type event struct {
	w *worker
	allocator.Load
}

type granted struct {
	w   *worker
	seq uint64
	s   store.Segment
}

const changingCeiling = 1000

func newChanging() *changing {
	c := &changing{next: 1, step: 8, handed: map[int64]bool{}}
	for range 2 {
		w := &worker{harness: newHarness(allocator.Config{MaxStep: changingCeiling}), known: c.step}
		w.Update(map[string]int64{"order": c.step})
		c.workers = append(c.workers, w)
	}
	return c
}

// learnStep tells the worker what the row says. Growth starts again from a lowered step, and
// from a raised one if that lies above.
func (w *worker) learnStep(step int64) {
	w.Update(map[string]int64{"order": step})
	switch {
	case step < w.known:
		w.grown = min(w.grown, step)
	case step > w.known && w.grown > 0:
		w.grown = max(w.grown, step)
	}
	w.known = step
}

// checkStep checks the step of a load that the worker asks for the first time.
func (w *worker) checkStep(t *rapid.T, step int64) {
	least, most := max(w.known, w.grown/2), 16*max(w.known, w.grown)
	least, most = min(least, changingCeiling), min(most, changingCeiling)
	if step < least || step > most {
		t.Fatalf("a load of %d, want %d to %d; the step is set to %d, and had grown to %d",
			step, least, most, w.known, w.grown)
	}
	w.grown = step
}

// collect records the new loads and answers.
func (c *changing) collect(t *rapid.T) {
	for _, w := range c.workers {
		for _, l := range w.asked {
			if l.Try == 1 {
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

// reserve serves the first n loads with one write, as a loader does, and sends the grants.
// What counts is the step in the events, neither the row's nor the worker's present one.
func (c *changing) reserve(n int) {
	var total int64
	for _, l := range c.loads[:n] {
		total += max(l.Step, l.Want)
	}
	s := store.Segment{First: c.next, End: c.next + total}
	c.next = s.End
	for _, l := range c.loads[:n] {
		var own store.Segment
		own, s = s.Cut(max(l.Step, l.Want))
		c.grants = append(c.grants, granted{l.w, l.Seq, own})
	}
	c.loads = c.loads[n:]
}

// TestStepsChangeBetweenLoads: a step that is raised or lowered in the table applies from
// the next load on, whenever a worker learns of it. Whatever the order of changes, loads and
// grants, no two ranges overlap.
func TestStepsChangeBetweenLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChanging()
		anyone := func(t *rapid.T) *worker { return c.workers[rapid.IntRange(0, 1).Draw(t, "worker")] }
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				w := anyone(t)
				w.open = append(w.open, w.request("order", rapid.Int64Range(1, 30).Draw(t, "n")))
			},
			"set step": func(t *rapid.T) { c.step = rapid.Int64Range(1, 2*changingCeiling).Draw(t, "step") },
			"learn":    func(t *rapid.T) { anyone(t).learnStep(c.step) },
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
				if v := g.w.Grant("order", g.seq, g.s); v.Outcome == allocator.Below {
					t.Fatalf("%v of a store that did not go back: %+v", g.s, v)
				}
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
