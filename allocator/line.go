package allocator

import (
	"sync"
	"sync/atomic"
	"time"
)

// When an operator has decided that a register may have lost grants, any range
// that was granted before may be somebody else's as well. So all segments that
// an allocator holds are of one line: they were granted under the latest
// decision that it has learned. Its floor names that decision, because each
// decision raises the floor. docs/proofs/register.md has the argument,
// docs/spec/line.pml the model.

// line is what an allocator has learned of decisions.
type line struct {
	learning sync.Mutex
	floor    atomic.Int64
	voided   atomic.Int64 // the floor, once nothing from before is held

	// since is a number between those of the loads that began before the floor
	// was learned, and those that began after it. replaced is the same for a
	// decision about another installation.
	since, replaced atomic.Uint64
}

// Floor is the highest floor that was learned, 0 if none was. All that was
// granted before has been voided.
func (a *Allocator) Floor() int64 { return a.line.voided.Load() }

// Learn takes in the floor of a decision, and reports whether it is higher than
// all earlier ones. If so, the segments of all tags are voided: nothing of them
// is handed out once Learn has returned. A voided tag keeps its highest number,
// and is unknown until its next grant, because it may be strict by now. Its
// parked requests wait for that grant. If it had a buffer, that is filled again.
//
// Learn comes before the [Allocator.Answer] that brings the floor.
func (a *Allocator) Learn(floor int64) bool {
	a.line.learning.Lock()
	defer a.line.learning.Unlock()
	if floor <= a.line.floor.Load() {
		return false
	}
	a.line.since.Store(a.seq.Add(1))
	a.line.floor.Store(floor)
	a.voidAll()
	a.line.voided.Store(floor)
	return true
}

// Void voids the segments of all tags, as Learn does, after a decision about
// another installation, which took the place of this one: grants that were
// requested before it count no more.
func (a *Allocator) Void() {
	a.line.learning.Lock()
	defer a.line.learning.Unlock()
	now := a.seq.Add(1)
	a.line.since.Store(now)
	a.line.replaced.Store(now)
	a.voidAll()
}

func (a *Allocator) voidAll() {
	for _, t := range a.tags.All() {
		a.update(t, func(now time.Duration) { a.void(t, now) })
	}
}

// void makes a tag forget its segments and its order. A load under way begins
// anew: without the pauses of its failures, which may be those of the raise, and
// under another number, so that no grant from before answers it. It needs the
// tag's mu.
func (a *Allocator) void(t *tag, now time.Duration) {
	a.burnBuffer(t)
	t.order = ""
	under := t.busy.load.state != idle
	t.busy.load = load{}
	if under {
		t.busy.load = load{seq: a.seq.Add(1), wanted: now, state: waiting, need: forever}
	}
}

// burnBuffer empties a tag's buffer. Also a Take that has read the current
// segment already gets nothing of it any more. It needs the tag's mu.
func (a *Allocator) burnBuffer(t *tag) {
	a.burnt.Add(t.backlog())
	t.busy.ready = nil
	if s := t.cur.Swap(&empty); s != &empty {
		used := s.used.Swap(s.Len())
		a.burnt.Add(s.Len() - used)
		t.meter.spent += used
	}
}
