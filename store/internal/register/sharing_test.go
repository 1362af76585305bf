package register

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharing: many who come at once share one question, which begins after each of them came; and who gives
// up while asking leaves it to another.
func TestSharing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sharing
		var mu sync.Mutex
		asked := 0
		var began time.Time
		ask := func(ctx context.Context) error {
			mu.Lock()
			asked++
			began = time.Now()
			mu.Unlock()
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var wg sync.WaitGroup
		for i := range 300 { // over three seconds
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				came := time.Now()
				if err := s.Do(t.Context(), ask); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if began.Before(came) {
					t.Errorf("call %d got the answer to a question from before it came", i)
				}
			})
		}
		wg.Wait()
		if asked > 6 {
			t.Errorf("300 calls in three seconds asked %d times", asked)
		}
		// One asks, a second who will give up waits to ask next, and a third waits for the second.
		wg.Go(func() { _ = s.Do(t.Context(), ask) })
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		wg.Go(func() {
			if err := s.Do(short, ask); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who gives up gets %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := s.Do(t.Context(), ask); err != nil {
				t.Errorf("who waited for one that gave up gets %v", err)
			}
		})
		wg.Wait()
	})
}
