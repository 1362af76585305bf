package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

func withDomain(domain string) func(*server.Options) {
	return func(o *server.Options) { o.JetStreamDomain = domain }
}

// load reserves from several handles until stop is called, which waits for them and
// checks what they got.
type load struct {
	ledger storetest.Ledger
	failed atomic.Int64
	stop   func()
}

func startLoad(t *testing.T, c connector) *load {
	l := &load{}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for g := range 4 {
		s := open(t, c, "ids")
		wg.Go(func() {
			last := int64(0)
			for step := int64(1 + g); ctx.Err() == nil; step = step%100 + 1 {
				call, done := context.WithTimeout(ctx, time.Second)
				seg, err := s.Reserve(call, "order", step)
				done()
				if err != nil {
					l.failed.Add(1)
					continue
				}
				if seg.First < last {
					t.Errorf("%v does not lie above %d, which was reserved before", seg, last)
				}
				last = seg.End
				l.ledger.Add("order", step, seg)
			}
		})
	}
	l.stop = func() {
		cancel()
		wg.Wait()
		t.Logf("%d segments, %d failed calls", l.ledger.Len(), l.failed.Load())
		l.ledger.Check(t)
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return l
}

// more waits until n more segments were reserved.
func (l *load) more(t *testing.T, n int, when string) {
	t.Helper()
	target := l.ledger.Len() + n
	natstest.Eventually(t, "segments "+when, func() bool { return l.ledger.Len() >= target })
}

func TestServerStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	newTag(t, fresh(t, single{srv}, "ids", 1), "order")
	l := startLoad(t, single{srv})
	for range tier.Pick(2, 5) {
		l.more(t, 100, "while the server runs")
		srv.Stop()
		failed := l.failed.Load()
		natstest.Eventually(t, "calls fail", func() bool { return l.failed.Load() >= failed+4 })
		srv.Restart()
	}
	l.more(t, 100, "after the last restart")
	l.stop()
}

// TestReplicas: on three servers, reads come from any of them and conflicts have
// another error code.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	newTag(t, fresh(t, cluster{c}, "ids", 3), "order")
	t.Run("NewTagIsNeverUnknown", func(t *testing.T) { testNewTag(t, cluster{c}) })
	t.Run("TagsShowsAcknowledgedWrites", func(t *testing.T) { testAcknowledged(t, cluster{c}) })
	t.Run("StoppedUnderLoad", func(t *testing.T) { testReplicaStopped(t, c) })
}

// A tag can be used the moment CreateTag returns, whichever replica is asked.
func testNewTag(t *testing.T, c cluster) {
	admin := open(t, c, "ids")
	others := []*Store{open(t, c, "ids"), open(t, c, "ids"), open(t, c, "ids")}
	for i := range tier.Pick(30, 300) {
		name := fmt.Sprintf("tag%d", i)
		newTag(t, admin, name)
		var wg sync.WaitGroup
		for _, s := range others {
			wg.Go(func() {
				for deadline := time.Now().Add(natstest.Patience); ; time.Sleep(5 * time.Millisecond) {
					_, err := s.Reserve(t.Context(), name, 10)
					if err != nil && isPassing(err) && time.Now().Before(deadline) {
						continue
					}
					if err != nil {
						t.Error(err)
					}
					return
				}
			})
		}
		wg.Wait()
	}
}

// isPassing reports whether a caller asks again after an error: the servers are slow,
// or there is no leader for a moment.
func isPassing(err error) bool {
	for _, passing := range []error{nats.ErrTimeout, nats.ErrNoResponders, natsjs.ErrNoStreamResponse, context.DeadlineExceeded} {
		if errors.Is(err, passing) {
			return true
		}
	}
	api := new(natsjs.APIError)
	return errors.As(err, &api) && api.Code == 503
}

// What was acknowledged before the call is in the list, whichever replica it comes
// from.
func testAcknowledged(t *testing.T, c cluster) {
	s, other := open(t, c, "ids"), open(t, c, "ids")
	// passed says that a call took place, and fails the test if asking again is no use.
	passed := func(err error) bool {
		if err != nil && !isPassing(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	for range tier.Pick(30, 300) {
		var seg store.Segment
		natstest.Eventually(t, "a segment", func() bool {
			var err error
			seg, err = s.Reserve(t.Context(), "order", 1)
			return passed(err)
		})
		var tags []store.Tag
		natstest.Eventually(t, "the list", func() bool {
			var err error
			tags, err = other.Tags(t.Context())
			return passed(err)
		})
		i := slices.IndexFunc(tags, func(tag store.Tag) bool { return tag.Name == "order" })
		if i < 0 || tags[i].Next != seg.End {
			t.Errorf("after %v was reserved: %v", seg, tags)
		}
	}
}

func testReplicaStopped(t *testing.T, c *natstest.Cluster) {
	l := startLoad(t, cluster{c})
	for range tier.Pick(1, 3) {
		l.more(t, 50, "with three servers")
		var leader *natstest.Server
		natstest.Eventually(t, "the stream has a leader", func() bool {
			leader = c.StreamLeader("KV_ids_segments")
			return leader != nil
		})
		leader.Stop()
		l.more(t, 50, "with two of three servers")
		leader.Restart()
		c.WaitReady(t)
	}
	l.stop()
}

// lossy is a bucket that loses its next answers.
type lossy struct {
	natsjs.KeyValue
	writes bool // whether the lost answer is that of a write that took place
	lose   int
}

var errLost = errors.New("answer lost")

func (l *lossy) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if l.lose == 0 {
		return l.KeyValue.Update(ctx, key, value, revision)
	}
	l.lose--
	if l.writes {
		if _, err := l.KeyValue.Update(ctx, key, value, revision); err != nil {
			return 0, err
		}
	}
	return 0, errLost
}

// If an answer is lost, its range is not handed out, whether it was written or not, and
// Reserve does not try to find out.
func TestLostAnswerIsBurnt(t *testing.T) {
	t.Parallel()
	s := fresh(t, single{natstest.Start(t)}, "ids", 1)
	newTag(t, s, "order")
	for _, test := range []struct {
		writes bool
		next   store.Segment
	}{
		{true, store.Segment{First: 11, End: 21}},  // [1, 11) is a gap
		{false, store.Segment{First: 21, End: 31}}, // nothing was written, nothing is lost
	} {
		lossy := &lossy{KeyValue: s.kv, writes: test.writes, lose: 1}
		unsure := &Store{js: s.js, bucket: s.bucket, kv: lossy, stream: s.stream}
		if seg, err := unsure.Reserve(t.Context(), "order", 10); !errors.Is(err, errLost) || seg != (store.Segment{}) {
			t.Errorf("written %v: got %v, %v, want no segment and the error", test.writes, seg, err)
		}
		if seg, err := unsure.Reserve(t.Context(), "order", 10); err != nil || seg != test.next {
			t.Errorf("written %v: next is %v, %v, want %v", test.writes, seg, err, test.next)
		}
	}
}
