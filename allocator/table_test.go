package allocator

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/memory"
	"github.com/idworker/idworker/testing/tier"
)

func newIdle() *Allocator {
	return New(Config{Clock: func() time.Duration { return 0 }, Load: func(Load) {}})
}

// TestTableIsAMap: whatever is added, asked for and removed, the table has what a map has.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, want, remembered := newIdle(), map[string]int64{}, map[string]bool{}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("tag-", rapid.IntRange(0, 5000).Draw(t, "n")) })
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			steps := rapid.MapOf(name, rapid.Int64Range(1, 9)).Draw(t, "steps")
			removed := rapid.SliceOf(name).Draw(t, "removed")
			a.Update(steps, removed...)
			maps.Copy(want, steps)
			for _, n := range removed {
				delete(want, n)
			}
			for _, n := range rapid.SliceOf(name).Draw(t, "granted") {
				a.Grant(n, 0, store.Segment{First: 1, End: 10})
				if _, ok := want[n]; ok || remembered[n] {
					remembered[n] = true
				}
			}
		}
		all := maps.Clone(want)
		for n := range remembered {
			all[n] = 0
		}
		if a.Tags() != len(all) {
			t.Fatalf("%d tags, want %d", a.Tags(), len(all))
		}
		missing, tags := a.Missing(nil)
		if slices.Sort(missing); tags != len(want) || !slices.Equal(missing, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("%d tags %v, want %v", tags, missing, want)
		}
		for n := range all {
			if a.tags.find(n) == nil {
				t.Fatalf("%s is not found", n)
			}
		}
		if len(a.tags.listActive()) != len(remembered) {
			t.Fatalf("%d tags have buffers, want %d", len(a.tags.listActive()), len(remembered))
		}
	})
}

// TestReadersSeeEveryTag that was there before they looked, while others are added and removed.
func TestReadersSeeEveryTag(t *testing.T) {
	a := newIdle()
	a.Update(map[string]int64{"hot": 1})
	a.Grant("hot", 0, store.Segment{First: 1, End: 1 << 50})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, ok := a.Take("hot", 1); !ok {
					t.Error("a tag was not there for a moment")
					return
				}
			}
		})
	}
	for i := range tier.Pick(30_000, 2_000_000) {
		a.Update(map[string]int64{fmt.Sprint("tag-", i): 1}, fmt.Sprint("tag-", i/2))
	}
	close(done)
	readers.Wait()
}

// idleTagBytes is what a tag costs that nobody has asked for, besides its name.
const idleTagBytes = 100

// TestIdleTagsAreSmall, and changing one costs the same however many there are: nothing that
// grows with their number is allocated.
func TestIdleTagsAreSmall(t *testing.T) {
	n := tier.Pick(50_000, 1_000_000)
	steps := make(map[string]int64, n)
	for i := range n {
		steps[fmt.Sprintf("tag-%07d", i)] = 1000
	}
	before := heapInUse()
	a := newIdle()
	a.Update(steps)
	each := float64(heapInUse()-before) / float64(n)
	t.Logf("%.1f bytes for each of %d tags", each, n)
	if each > idleTagBytes {
		t.Errorf("%.0f bytes for each of %d tags, allowed are %d", each, n, idleTagBytes)
	}

	const changes = 10_000
	allocated := memory.Allocated(func() {
		for i := range changes {
			name := fmt.Sprintf("new-%07d", i)
			a.Update(map[string]int64{name: 1})
			a.Update(map[string]int64{name: 2})
			a.Update(nil, name)
		}
	})
	if per := allocated / changes; per > 2000 {
		t.Errorf("%d bytes are allocated to add, change and remove one tag of %d", per, n)
	}
	if f := a.Figures(); len(f) != 0 {
		t.Errorf("%d tags have figures, and none was asked for", len(f))
	}
	runtime.KeepAlive(steps)
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFiguresVisitActiveTagsOnly: those that were asked for.
func TestFiguresVisitActiveTagsOnly(t *testing.T) {
	a := newIdle()
	steps := map[string]int64{}
	for i := range 10_000 {
		steps[fmt.Sprint("tag-", i)] = 10
	}
	a.Update(steps)
	for _, name := range []string{"tag-1", "tag-77"} {
		if _, err := a.TakeOrPark(strings.Clone(name), 1, func([]store.Segment, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.tags.listActive()); n != 2 {
		t.Errorf("%d tags are visited for the figures, want the 2 that were asked for", n)
	}
	if f := a.Figures(); len(f) != 2 {
		t.Errorf("%v", f)
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 1_000, 1_000_000} {
		a := newIdle()
		for i := range n {
			a.Update(map[string]int64{fmt.Sprintf("tag-%07d", i): 1000})
		}
		name := fmt.Sprintf("tag-%07d", n/2)
		a.Grant(name, 0, store.Segment{First: 1, End: 1 << 60})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				a.Take(name, 1)
			}
		})
	}
}
