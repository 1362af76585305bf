package allocator_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/store"
)

// TestConcurrentCallers has many goroutines take single IDs and batches from a
// tag while another grants loads and sends replies.
// Every ID is checked, and every goroutine's IDs ascend.
func TestConcurrentCallers(t *testing.T) {
	const callers, requests = 8, 5000
	t.Parallel()
	var clock atomic.Int64
	a := allocator.New(allocator.Config{
		Clock:   func() time.Duration { return time.Duration(clock.Add(1)) },
		MaxStep: 10_000,
	})

	done := make(chan struct{})
	var owner sync.WaitGroup
	owner.Go(func() {
		next, granted := int64(1), uint64(0)
		for {
			select {
			case <-done:
				return
			case <-a.Ready():
			}
			for l, ok := a.Send(); ok; l, ok = a.Send() {
				if l.Seq <= granted {
					continue
				}
				granted = l.Seq
				s := store.Segment{First: next, End: next + max(l.Step, l.Want, 10)}
				next = s.End
				if a.Answer(l.Tag, l.Seq, allocator.Answer{Segment: s, Step: 10, Order: store.Trend}).Outcome != allocator.Used {
					t.Errorf("grant %v was burnt", s)
				}
			}
			for _, r := range a.Replies() {
				r.From.(chan allocator.Reply) <- r
			}
		}
	})

	seen := make([]atomic.Bool, 64*callers*requests)
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			last := int64(0)
			replies := make(chan allocator.Reply, 1)
			for i := range requests {
				n := int64(1 + (c*requests+i)%7)
				var ids []store.Segment
				if s, ok := a.Take("order", n); ok {
					ids = append(ids, s)
				} else {
					var err error
					ids, err = a.TakeOrPark(allocator.Request{Tag: "order", N: n, From: replies})
					if ids == nil && err == nil {
						r := <-replies
						ids, err = r.IDs, r.Err
					}
					if err != nil {
						t.Error(err)
					}
				}
				for _, s := range ids {
					for id := s.First; id < s.End; id++ {
						if id <= last {
							t.Errorf("%d after %d", id, last)
						}
						last = id
						if seen[id].Swap(true) {
							t.Errorf("%d was handed out twice", id)
						}
					}
				}
			}
		})
	}
	group.Wait()
	close(done)
	owner.Wait()
}
