package allocator

import (
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
)

// TestNoMarkIsMissed: many goroutines take from a segment while its mark is
// moved, and Take reports the crossing to the goroutine that crosses it. A
// missed mark would stay behind the cursor, and the tag would never be checked
// again.
func TestNoMarkIsMissed(t *testing.T) {
	const takers, ids = 4, 2*checksPerSegment - 1 // so that each ID is a mark
	for range tier.Pick(5000, 100_000) {
		s := newSegment(store.Segment{First: 1, End: 1 + ids}, 0)
		var mu sync.Mutex // the tag's
		var group sync.WaitGroup
		for range takers {
			group.Go(func() {
				for {
					_, crossed, ok := s.take(1)
					if !ok {
						return
					}
					if crossed {
						mu.Lock()
						s.rearm(ids)
						mu.Unlock()
					}
				}
			})
		}
		group.Wait()
		if mark := s.mark.Load(); mark <= ids {
			t.Fatalf("the mark is still at %d of %d", mark, ids)
		}
	}
}
