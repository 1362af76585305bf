package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// manyTags are in a directory.
var manyTags = tier.Pick(20_000, 1_000_000)

// fill writes many entries to a bucket, many at a time.
func fill(t testing.TB, net network, bucket, value string, n int) {
	t.Helper()
	js := newJetStream(t, net)
	for i := range n {
		for {
			_, err := js.PublishAsync(fmt.Sprintf("$KV.%s.shop-%07d.order", bucket, i), []byte(value))
			if err == nil {
				break
			}
		}
		if i%1000 == 999 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
}

// counted is a worker with the connection on which it reads the directory.
type counted struct {
	*worker.Process
	control *nats.Conn
}

func startCounted(t testing.TB, net network, cfg worker.Config) counted {
	t.Helper()
	cfg.Requests, cfg.Control, cfg.Version = net.Connect(t), net.Connect(t), "0.0.1"
	w, err := worker.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop() })
	return counted{w, cfg.Control}
}

// received is how many messages have come on the connection.
func (c counted) received() int { return int(c.control.Stats().InMsgs) }

// TestDirectoryIsReadOnce: when a worker starts. A change costs a message, and so does going on after
// a lost connection, however many tags there are.
func TestDirectoryIsReadOnce(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	js := newJetStream(t, net)
	if err := worker.Provision(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	fill(t, net, worker.TagsBucketName(messages.DefaultPrefix), `{"step":1000}`, manyTags)
	var workers []counted
	for range 4 {
		began := time.Now()
		w := startCounted(t, net, worker.Config{Role: worker.RoleWorker})
		t.Logf("%d tags known after %v", manyTags, time.Since(began).Round(time.Millisecond))
		expect(t, scrape(t, w.Process), map[string]float64{"tags": float64(manyTags)})
		workers = append(workers, w)
	}
	kv := tagsBucket(t, net)
	const few = 200 // heartbeats and leases among them
	create := func(n int) {
		t.Helper()
		before := make([]int, len(workers))
		for i, w := range workers {
			before[i] = w.received()
		}
		began := time.Now()
		if _, err := kv.Put(t.Context(), fmt.Sprintf("new-%d", n), []byte(`{"step":1000}`)); err != nil {
			t.Fatal(err)
		}
		for i, w := range workers {
			natstest.Eventually(t, "the new tag", func() bool {
				return scrape(t, w.Process)["tags"] == float64(manyTags+n)
			})
			if got := w.received() - before[i]; got > few {
				t.Errorf("%d messages for one tag, want %d at most", got, few)
			}
		}
		t.Logf("visible in all after %v", time.Since(began))
	}
	create(1)
	for _, w := range workers {
		reconnects := w.control.Stats().Reconnects
		if err := w.control.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, "the connection to be back", func() bool {
			return w.control.IsConnected() && w.control.Stats().Reconnects > reconnects
		})
	}
	create(2)
}

// TestMirrorReadsWhatHasChanged: loaders at rest read nothing but heartbeats, however many tags they
// mirror.
func TestMirrorReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	newStore(t, net, 1)
	fill(t, net, jetstreamstore.BucketName(messages.DefaultPrefix), `{"max_id":1,"step":1000}`, manyTags)
	var conns []*nats.Conn
	received := func() (n int) {
		for _, c := range conns {
			n += int(c.Stats().InMsgs)
		}
		return n
	}
	for range 2 {
		conn := net.Connect(t)
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		s, err := jetstreamstore.Open(t.Context(), js, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		l := startCounted(t, net, worker.Config{Role: worker.RoleLoader, Store: s, TagRefresh: time.Second})
		conns = append(conns, conn, l.control)
	}
	kv := tagsBucket(t, net)
	began := time.Now()
	natstest.Eventually(t, "the store to be mirrored", func() bool {
		status, err := kv.Status(t.Context())
		return err == nil && status.Values() == uint64(manyTags)
	})
	t.Logf("%d tags mirrored after %v", manyTags, time.Since(began))
	last, at, calm := received(), time.Now(), 0
	natstest.Eventually(t, "what was written to come back", func() bool {
		if time.Since(at) < time.Second {
			return false
		}
		now := received()
		if calm++; now-last > 50 { // more than a refresh reads
			calm = 0
		}
		last, at = now, time.Now()
		return calm == 3
	})

	// One tag more shows that refreshes go on.
	before := received()
	for i := range 3 {
		tag := fmt.Sprintf("new-%d", i)
		fillOne(t, net, jetstreamstore.BucketName(messages.DefaultPrefix), tag, `{"max_id":1,"step":1000}`)
		natstest.Eventually(t, "a new tag to be mirrored", func() bool {
			_, err := kv.Get(t.Context(), tag)
			return err == nil
		})
	}
	if got := received() - before; got > 200 {
		t.Errorf("%d messages were read in 3 refreshes with 3 new tags", got)
	}
}

func fillOne(t testing.TB, net network, bucket, key, value string) {
	t.Helper()
	if _, err := newJetStream(t, net).Publish(t.Context(), "$KV."+bucket+"."+key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// TestOneLoaderMirrors: the others do not list the store, until the one that does is stopped, or cut off.
func TestOneLoaderMirrors(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	segments := newStore(t, net, 1)
	var stores []*listed
	var loaders []counted
	calls := func() (all []int) {
		for _, s := range stores {
			s.mu.Lock()
			all = append(all, s.calls)
			s.mu.Unlock()
		}
		return all
	}
	for i := range 3 {
		s := &listed{Store: segments}
		s.set(nil, "order")
		stores = append(stores, s)
		loaders = append(loaders, startCounted(t, net, worker.Config{Role: worker.RoleLoader, Store: s, TagRefresh: time.Second}))
		if i == 0 {
			s.waitRefreshes(t, 1)
		}
	}
	stores[0].waitRefreshes(t, 4)
	if c := calls(); c[1] != 0 || c[2] != 0 {
		t.Fatalf("listed %v times, want the first loader alone", c)
	}
	next := func(after time.Duration) int {
		t.Helper()
		before, who := calls(), -1
		natstest.Eventually(t, "another loader to mirror", func() bool {
			for i, c := range calls()[1:] {
				if c > before[i+1] {
					who = i + 1
				}
			}
			return who > 0
		})
		return who
	}
	if err := loaders[0].Stop(); err != nil {
		t.Fatal(err)
	}
	second := next(3 * time.Second) // it gave the turn up
	stores[second].waitRefreshes(t, 2)
	third := 3 - second
	if c := calls(); c[third] != 0 {
		t.Fatalf("listed %v times, want loader %d alone", c, second)
	}
	loaders[second].control.Close() // as if it had died
	natstest.Eventually(t, "the third loader to mirror", func() bool { return calls()[third] > 0 })
}
