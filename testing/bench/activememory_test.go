package bench

import (
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// activeTagBar is how many bytes of heap an active tag of a template may cost a worker, its name included.
const activeTagBar = 300

// TestActiveTagsAreSmall: a tag that came into being when it was first asked for costs at most 300 bytes
// once it was answered, and nothing when it was forgotten.
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

// activeTagSize measures the heap of an allocator whose tags were each answered once, and after they were
// forgotten.
func activeTagSize(t testing.TB) (active, forgotten float64) {
	t.Helper()
	names := tagNames(idleTags)
	before := heap()
	var asked []allocator.Load
	var now time.Duration
	a := allocator.New(allocator.Config{
		Clock:        func() time.Duration { return now },
		Load:         func(l allocator.Load) { asked = append(asked, l) },
		FirstUse:     func(string) (int64, error) { return 10, nil },
		MaxFirstUses: 2 * idleTags,
	})
	for i, name := range names {
		answered := false
		if _, err := a.TakeOrPark("chat."+name, 1, func([]store.Segment, error) { answered = true }); err != nil {
			t.Fatal(err)
		}
		for _, l := range asked {
			a.Grant(l.Tag, l.Seq, store.Segment{First: 1, End: 11})
		}
		if asked = asked[:0]; !answered {
			t.Fatal("not answered")
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
