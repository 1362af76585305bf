package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// direct opens the way past NATS of a worker.
func direct(t testing.TB, w *worker.Process) *worker.Direct {
	t.Helper()
	d, err := w.Direct()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDirectAnswersAsByNATS: the same requests get the same answers, from the same memory, and are counted
// in the same place.
func TestDirectAnswersAsByNATS(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	g := &gate{Store: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Store: g, Wait: time.Second, MaxBatch: 500})
	createTags(t, g, 1000, "order", "cold")
	createStrict(t, g, 1000, "strict")
	c := newClient(t, net)
	d := direct(t, w)
	defer g.close("cold")()

	natstest.Eventually(t, "a worker ID", func() bool { _, err := d.Snowflake(t.Context(), nil); return err == nil })
	natstest.Eventually(t, "a strict ID", func() bool { _, err := d.Segment(t.Context(), "strict", nil, false); return err == nil })
	first := c.must("order")
	before := scrape(t, w)
	reply, err := d.Segment(t.Context(), "order", []byte("3"), false)
	if ranges, bad := messages.DecodeRanges(reply, 3); err != nil || bad != nil || ranges[0].First != first+1 {
		t.Errorf("got %q, %v, %v; want the 3 IDs behind %d", reply, err, bad, first)
	}
	if reply, err := d.Snowflake(t.Context(), []byte("2")); err != nil {
		t.Errorf("snowflake: %v", err)
	} else if _, err := messages.DecodeRanges(reply, 2); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		tag, count string
		kept       bool
	}{{"order", "0", false}, {"order", "501", false}, {"or der", "", false}, {"", "", false}, {"nosuch", "", false}, {"strict", "", true}, {"cold", "", false}} {
		msg := nats.NewMsg("ids.segment." + strings.ReplaceAll(test.tag, " ", "$"))
		if test.tag == "" {
			continue // not a subject
		}
		msg.Data = []byte(test.count)
		if test.kept {
			msg.Header.Set(messages.PrefetchHeader, "1")
		}
		byNATS, err := c.conn.RequestMsg(msg, natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		_, want := messages.DecodeReply(byNATS, 1)
		_, got := d.Segment(t.Context(), strings.ReplaceAll(test.tag, " ", "$"), []byte(test.count), test.kept)
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%+v: %v, and by NATS %v", test, got, want)
		}
	}
	for name, n := range map[string]float64{
		"requests_total/ok/segment": 1, "requests_total/ok/snowflake": 1, "ids_total/segment": 3, "ids_total/snowflake": 2,
		"requests_total/400/segment": 6, "requests_total/404/segment": 2, "requests_total/409/segment": 2, "requests_total/503/segment": 2,
	} {
		more := func() float64 { return scrape(t, w)[name] - before[name] }
		natstest.Eventually(t, name, func() bool { return more() >= n }) // after the reply
		if got := more(); got != n {
			t.Errorf("%s: %v more, want %v", name, got, n)
		}
	}
}

// TestDirectWithdraws: who goes away frees the place of a request that is parked, at once.
func TestDirectWithdraws(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	g := &gate{Store: newStore(t, net, 1)}
	w := startWorker(t, net, worker.Config{Store: g})
	createTags(t, g, 1000, "cold")
	d := direct(t, w)
	open := g.close("cold")
	defer open()
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := d.Segment(ctx, "cold", nil, false); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that the caller has gone", err)
			}
		})
	}
	natstest.Eventually(t, "parked requests", func() bool { return scrape(t, w)["parked_requests"] == 100 })
	leave()
	all.Wait()
	if n := scrape(t, w)["parked_requests"]; n != 0 {
		t.Errorf("%v requests are still parked", n)
	}
	open()
	natstest.Eventually(t, "an ID", func() bool {
		_, err := d.Segment(t.Context(), "cold", nil, false)
		return err == nil
	})
}

// TestDirectWithoutNATS: memory answers while the server is away.
func TestDirectWithoutNATS(t *testing.T) {
	t.Parallel()
	net := natstest.Start(t)
	s := newStore(t, net, 1)
	w := startWorker(t, net, worker.Config{Store: s, Wait: 300 * time.Millisecond})
	createTags(t, s, 1000, "order")
	newClient(t, net).must("order")
	d := direct(t, w)
	net.Stop()
	defer net.Restart()
	natstest.Eventually(t, "the connection is lost", func() bool { return w.Ready() != nil })
	for range 100 {
		if _, err := d.Segment(t.Context(), "order", nil, false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDirectOfALoader: a process that answers nobody has no way to its IDs.
func TestDirectOfALoader(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	w := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: newStore(t, net, 1)})
	if _, err := w.Direct(); !errors.Is(err, worker.ErrNotAnswering) {
		t.Errorf("got %v", err)
	}
}
