package bench

import (
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// activeTagBar is how many bytes of heap a tag in memory may cost a worker, its
// name included.
const activeTagBar = 300

// idleTags are so many that those that are idle are dropped soon.
const idleTags = 200_000

// TestActiveTagsAreSmall: a tag in memory costs at most 300 bytes once it was
// answered, and nothing when it was dropped.
func TestActiveTagsAreSmall(t *testing.T) {
	active, forgotten := activeTagSize(t)
	t.Logf("%.0f bytes per active tag, %.0f when it was forgotten", active, forgotten)
	if active > activeTagBar {
		t.Errorf("%.0f bytes per active tag, allowed are %d", active, activeTagBar)
	}
	if forgotten > 10 {
		t.Errorf("%.0f bytes of each tag that was forgotten are left", forgotten)
	}
}

// activeTagSize measures the heap of an allocator whose tags were each answered
// once, and after they were forgotten.
func activeTagSize(t testing.TB) (active, forgotten float64) {
	t.Helper()
	names := tagNames(idleTags)
	before := heap()
	var now time.Duration
	a := allocator.New(allocator.Config{Clock: func() time.Duration { return now }})
	for i, name := range names {
		if _, err := a.TakeOrPark(allocator.Request{Tag: "chat." + name, N: 1}); err != nil {
			t.Fatal(err)
		}
		for l, ok := a.Send(); ok; l, ok = a.Send() {
			a.Answer(l.Tag, l.Seq, allocator.Answer{Segment: store.Segment{First: 1, End: 101}, Step: 100, Order: store.Trend})
		}
		if replies := a.Replies(); len(replies) != 1 || replies[0].Err != nil {
			t.Fatalf("answered with %v", replies)
		}
		now = time.Duration(i) * time.Millisecond
		a.Tick()
	}
	now += time.Minute
	a.Tick()
	active = float64(heap()-before) / idleTags
	a.DropIdle()
	if n := a.DropIdle(); n != idleTags {
		t.Fatalf("%d tags were forgotten", n)
	}
	forgotten = float64(heap()-before) / idleTags
	if a.Tags() != 0 {
		t.Fatal("there are tags")
	}
	return active, forgotten
}
