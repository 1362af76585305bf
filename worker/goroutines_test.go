package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/store"
)

// TestGoroutinesStartWhileStopping: goroutines may be started at any time, even while their
// owner stops them. When stop returns none is left, and none begins.
func TestGoroutinesStartWhileStopping(t *testing.T) {
	for range 50 {
		g := newGoroutines()
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
				for i := 0; i < 100 && g.start(untilStopped); i++ {
					g.start(func(context.Context) { g.start(untilStopped) }) // as loads do
				}
			})
		}
		<-began
		g.stop()
		if n := running.Load(); n != 0 {
			t.Fatalf("%d goroutines run after stop", n)
		}
		starters.Wait()
		if g.start(untilStopped) {
			t.Fatal("a goroutine was started after stop")
		}
	}
}

// noStore fails the test when it is called.
type noStore struct {
	lookupStore
	t *testing.T
}

func (noStore) Known(string) bool { return true }

func (s noStore) Lookup(context.Context, string) (store.Tag, error) {
	s.t.Error("the store is called")
	return store.Tag{}, errors.New("closed")
}

// message is a message of the load stream.
type message struct{ acks, naks int }

func (m *message) Ack() error { m.acks++; return nil }
func (m *message) Nak() error { m.naks++; return nil }

// TestLoaderStopped: a load event that comes after the loader has stopped is not served, as
// the store may be closed, and not acknowledged, so that another loader gets it.
func TestLoaderStopped(t *testing.T) {
	l := newLoader(Config{Log: zap.NewNop()}.WithDefaults(), newLookups(&noStore{t: t}, noTemplates))
	l.stop()
	var msg message
	for range 2 {
		l.submit(job{loads.Event{Instance: "a", Tag: "order", Step: 1, Seq: 1}, &msg, time.Now().Add(time.Minute)})
	}
	l.serving.stop()
	if msg.acks != 0 || msg.naks != 2 {
		t.Errorf("%d of 2 events were acknowledged, %d handed back", msg.acks, msg.naks)
	}
}
