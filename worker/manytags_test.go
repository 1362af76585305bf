package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/tier"
	"github.com/idworker/idworker/worker"
)

// manyTags are in a directory.
var manyTags = tier.Pick(2_000, 1_000_000)

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
	cfg = configure(t, net, cfg)
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
	net := worker.NewAccount(t)
	js := newJetStream(t, net)
	if err := worker.Provision(t.Context(), js, messages.DefaultPrefix, 1); err != nil {
		t.Fatal(err)
	}
	fill(t, net, worker.TagsBucketName(messages.DefaultPrefix), `{"step":1000}`, manyTags)
	var workers []counted
	for range 2 {
		began := time.Now()
		w := startCounted(t, net, worker.Config{Role: worker.RoleWorker})
		t.Logf("%d tags known after %v", manyTags, time.Since(began).Round(time.Millisecond))
		expect(t, scrape(t, w.Process), map[string]float64{"tags": float64(manyTags)})
		workers = append(workers, w)
	}
	kv := tagsBucket(t, net)
	few := manyTags / 2 // heartbeats and leases among them
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
