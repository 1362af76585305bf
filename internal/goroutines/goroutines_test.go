package goroutines_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/idworker/idworker/internal/goroutines"
)

// TestStartWhileStopping: goroutines may be started at any time, even while
// their owner stops them. When Stop returns, none is left, and none begins.
func TestStartWhileStopping(t *testing.T) {
	for range 50 {
		g := goroutines.New()
		var running atomic.Int64
		began := make(chan struct{})
		signal := sync.OnceFunc(func() { close(began) })
		untilStopped := func(ctx context.Context) {
			running.Add(1)
			signal()
			<-ctx.Done()
			running.Add(-1)
		}
		var starters sync.WaitGroup
		for range 4 {
			starters.Go(func() {
				for i := 0; i < 100 && g.Start(untilStopped); i++ {
					// As loads do.
					g.Start(func(context.Context) { g.Start(untilStopped) })
				}
			})
		}
		<-began
		g.Stop()
		if n := running.Load(); n != 0 {
			t.Fatalf("%d goroutines run after Stop", n)
		}
		starters.Wait()
		if g.Start(untilStopped) {
			t.Fatal("a goroutine was started after Stop")
		}
	}
}
