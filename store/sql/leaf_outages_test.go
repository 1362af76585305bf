package sql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/leaftest"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/order"
	"github.com/idworker/idworker/testing/proxy"
	"github.com/idworker/idworker/testing/tier"
)

// load reserves from several handles until stop is called, which waits for
// them.
type load struct {
	ledger order.Ledger
	failed atomic.Int64
	stop   func()
}

func (b *suite) startLoad(t *testing.T, dsn string) *load {
	l := &load{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for g := range 6 {
		s := leaftest.Open(t, dsn, "leaf_alloc")
		for range 2 {
			wg.Go(func() {
				last := int64(0)
				for step := int64(1 + g); ctx.Err() == nil; step = step%100 + 1 {
					call, done := context.WithTimeout(ctx, 500*time.Millisecond)
					seg, err := s.Reserve(call, "order", step)
					done()
					if err != nil {
						mute(t, err)
						l.failed.Add(1)
						continue
					}
					if seg.First < last {
						t.Errorf("%v does not lie above %d, which was reserved before", seg, last)
					}
					last = seg.End
					l.ledger.AddSegment("order", step, seg)
				}
			})
		}
	}
	l.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(l.stop)
	return l
}

// more waits until n more segments are reserved, and returns the time that
// took.
func (l *load) more(t *testing.T, n int, when string) time.Duration {
	t.Helper()
	start, target := time.Now(), l.ledger.Len()+n
	natstest.Eventually(t, "segments "+when, func() bool { return l.ledger.Len() >= target })
	return time.Since(start)
}

// fails waits until n more calls failed.
func (l *load) fails(t *testing.T, n int64, when string) {
	t.Helper()
	target := l.failed.Load() + n
	natstest.Eventually(t, "failed calls "+when, func() bool { return l.failed.Load() >= target })
}

// The server is frozen, and killed and restarted, during many reservations. All
// segments that were returned are disjoint, and reservations succeed again.
func (b *suite) testOutages(t *testing.T) {
	tier.All(t)
	srv := b.Start(t)
	s := leaftest.Open(t, srv.DSN(), "leaf_alloc")
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1}); err != nil {
		t.Fatal(err)
	}
	l := b.startLoad(t, srv.DSN())
	for range 2 {
		l.more(t, 200, "while the server runs")
		srv.Pause()
		l.fails(t, 24, "while the server is paused")
		srv.Resume()
		t.Logf("paused and resumed: the next segments after %v", l.more(t, 1, "after the pause"))

		l.more(t, 200, "before the server is killed")
		srv.Kill()
		l.fails(t, 24, "while the server is gone")
		srv.Restart()
		t.Logf("killed and restarted: the next segments after %v", l.more(t, 1, "after the restart"))
	}
	l.more(t, 200, "at the end")
	l.stop()
	t.Logf("%d segments, %d failed calls", l.ledger.Len(), l.failed.Load())
	l.ledger.Check(t)
	if n := maxID(t, srv.DB, "order"); n < l.ledger.End("order") {
		t.Errorf("max_id is %d, the last segment ended at %d", n, l.ledger.End("order"))
	}
}

// The primary becomes read-only, the replica takes over, and the name leads
// there. The old server keeps its connections. Reservations succeed again, and
// no segment is returned twice.
func (b *suite) testSwitchOver(t *testing.T) {
	tier.All(t)
	const tags = 20
	pair := b.Pair(t)
	pair.Exec(t, b.Shapes["official"])
	for n := range tags {
		pair.Exec(t, fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('tag%d', 1, 10)", n))
	}
	statements := b.User("switched", canary, "SELECT, INSERT, UPDATE")
	pair.Exec(t, statements[:len(statements)-1]...)
	pair.Follow()
	proxy := proxy.Start(t, pair.Addr())
	s := leaftest.Open(t, pair.DSNForVia("switched", canary, proxy), "leaf_alloc")
	ends := make([]int64, tags)
	reserve := func(when string) {
		t.Helper()
		served := make([]bool, tags)
		natstest.Eventually(t, "a segment of each tag "+when, func() bool {
			var calls sync.WaitGroup
			for n := range tags {
				if served[n] {
					continue
				}
				calls.Go(func() {
					seg, err := s.Reserve(t.Context(), fmt.Sprint("tag", n), 10)
					if err != nil {
						mute(t, err)
						return
					}
					if seg.First < ends[n] {
						t.Errorf("tag%d gets %v, had all below %d", n, seg, ends[n])
					}
					ends[n], served[n] = seg.End, true
				})
			}
			calls.Wait()
			return !slices.Contains(served, false)
		})
	}
	for range 3 {
		reserve("before")
	}
	old := s.Server()
	pair.SwitchOver()
	if err := s.Probe(t.Context()); !errors.Is(err, store.ErrSetup) {
		t.Errorf("a probe of a server that became read-only: %v", err)
	}
	proxy.Turn(pair.Addr())
	for range 3 {
		reserve("after the switch")
	}
	if server := s.Server(); old == "" || server == "" || server == old {
		t.Errorf("the server is %q, was %q", server, old)
	}
}
