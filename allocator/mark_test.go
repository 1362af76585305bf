package allocator

import (
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/tier"
)

// TestNoMarkIsMissed: however many take from a segment while its mark is moved,
// the one that crosses it is told so. A mark that was missed would stay behind
// the cursor, and nobody would look at the tag again.
func TestNoMarkIsMissed(t *testing.T) {
	const takers, ids = 4, 2*looks - 1 // so that each ID is a mark
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
						s.rearm()
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
