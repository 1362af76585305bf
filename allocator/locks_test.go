package allocator

import (
	"testing"
	"time"

	"github.com/idworker/idworker/store"
)

// lockWatch is an allocator whose callbacks check that nothing is locked.
type lockWatch struct {
	*Allocator

	t              *testing.T
	now            time.Duration
	latest         Load
	loads, answers int
}

func newLockWatch(t *testing.T) *lockWatch {
	w := &lockWatch{t: t}
	w.Allocator = New(Config{
		Clock: func() time.Duration { return w.now },
		Load:  func(l Load) { w.latest = l; w.loads++; w.check("Load") },
	})
	return w
}

func (w *lockWatch) check(who string) {
	w.t.Helper()
	for name, tag := range w.tags.All() {
		if !tag.mu.TryLock() {
			w.t.Fatalf("%s is called with tag %s locked", who, name)
		}
		tag.mu.Unlock()
	}
	if !w.refused.mu.TryLock() {
		w.t.Fatalf("%s is called with the refusals locked", who)
	}
	w.refused.mu.Unlock()
}

func (w *lockWatch) park() {
	w.t.Helper()
	r := Request{N: 5, Answer: func([]store.Segment, error) { w.answers++; w.check("an answer") }}
	if ids, err := w.TakeOrPark("order", r); ids != nil || err != nil {
		w.t.Fatalf("got %v, %v; want the request parked", ids, err)
	}
}

// send is what a worker does with the latest load.
func (w *lockWatch) send() {
	w.t.Helper()
	if _, ok := w.CurrentLoad("order", w.latest.Seq); !ok {
		w.t.Fatalf("%+v is not under way", w.latest)
	}
}

func (w *lockWatch) grant(order store.Order, first int64) {
	w.Grant("order", w.latest.Seq, Supply{store.Segment{First: first, End: first + 100}, 20, order})
}

func (w *lockWatch) want(when string, loads, answers int) {
	w.t.Helper()
	if w.loads != loads || w.answers != answers {
		w.t.Fatalf("%s: %d loads and %d answers, want %d and %d", when, w.loads, w.answers, loads, answers)
	}
}

// TestNothingIsCalledUnderALock: neither Load nor an answer is called while a tag or
// the refusals are locked, whichever method calls it. Both may call the allocator.
func TestNothingIsCalledUnderALock(t *testing.T) {
	w := newLockWatch(t)
	w.park()
	w.want("parked", 1, 0)
	w.now += DefaultReAsk
	w.Tick()
	w.want("overdue", 2, 0)
	w.grant(store.Trend, 1)
	w.want("granted", 2, 1)
	w.Take("order", 5) // up to the mark
	w.want("taken", 3, 1)
	w.Take("order", 90)
	w.park()
	w.want("parked again", 4, 1) // which makes the load under way urgent
	w.now += DefaultWait
	w.Tick()
	w.want("expired", 5, 2)
	w.park()
	w.Remove("order")
	w.want("removed", 6, 3)

	w = newLockWatch(t)
	w.park()
	w.send()
	w.park()
	w.grant(store.Strict, 1)
	w.want("granted, with another request parked", 2, 1)
	w.Refuse("order", w.latest.Seq, store.ErrExhausted)
	w.want("refused", 2, 2)
}
