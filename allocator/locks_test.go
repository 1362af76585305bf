package allocator

import (
	"testing"
	"time"

	"github.com/idworker/idworker/store"
)

// TestNothingIsCalledUnderALock: neither Load nor an answer is called while the map of
// tags or the tag is locked, whichever method calls it. Both may call the allocator.
func TestNothingIsCalledUnderALock(t *testing.T) {
	var (
		a              *Allocator
		now            time.Duration
		loads, answers int
	)
	check := func(who string) {
		t.Helper()
		if !a.tags.edit.TryLock() {
			t.Fatalf("%s is called with the map of tags locked", who)
		}
		a.tags.edit.Unlock()
		for _, tag := range a.tags.listActive() {
			if !tag.mu.TryLock() {
				t.Errorf("%s is called with tag %s locked", who, tag.name)
			} else {
				tag.mu.Unlock()
			}
		}
	}
	a = New(Config{
		Clock: func() time.Duration { return now },
		Load:  func(Load) { loads++; check("Load") },
	})
	park := func() {
		if ids, err := a.TakeOrPark("order", 5, func([]store.Segment, error) { answers++; check("an answer") }); ids != nil || err != nil {
			t.Fatalf("got %v, %v; want the request parked", ids, err)
		}
	}
	want := func(when string, wantLoads, wantAnswers int) {
		t.Helper()
		if loads != wantLoads || answers != wantAnswers {
			t.Fatalf("%s: %d loads and %d answers, want %d and %d", when, loads, answers, wantLoads, wantAnswers)
		}
	}

	a.Update(map[string]int64{"order": 10})
	park()
	want("parked", 1, 0)
	now += DefaultReAsk
	a.Update(map[string]int64{"order": 20}) // the load is overdue
	want("updated", 2, 0)
	a.Grant("order", 1, store.Segment{First: 1, End: 101})
	want("granted", 2, 1)
	a.Take("order", 5) // up to the mark
	want("taken", 3, 1)
	a.Take("order", 90)
	park()
	want("parked again", 4, 1) // which makes the load under way urgent
	now += DefaultWait
	a.Tick()
	want("expired", 5, 2)
	park()
	a.Update(nil, "order")
	want("removed", 6, 3)
}
