package worker_test

import (
	"testing"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

// TestNothingBelowWhatAWorkerHad: a worker says how far it was granted, and a loader whose
// store knows less grants what lies above, to that worker and to all others. The store is
// raised, and a metric says so.
func TestNothingBelowWhatAWorkerHad(t *testing.T) {
	t.Parallel()
	net := worker.NewAccount(t)
	s := newStore(t, net, 1)
	w := startWorker(t, net, worker.Config{Role: worker.RoleLoader, Store: s})
	createTags(t, net, s, 10, "order")
	conn := net.Connect(t)
	ask := func(instance string, above int64) loads.Grant {
		t.Helper()
		sub, err := conn.SubscribeSync(loads.GrantSubject(messages.DefaultPrefix, instance))
		if err != nil {
			t.Fatal(err)
		}
		event := loads.Event{Instance: instance, Tag: "order", Step: 10, Seq: 1, Above: above}
		if err := conn.Publish(loads.ReserveSubject(messages.DefaultPrefix), event.Encode()); err != nil {
			t.Fatal(err)
		}
		msg, err := sub.NextMsg(natstest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		grant, err := loads.DecodeGrant(msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	if g := ask("first", 0); g.First != 1 {
		t.Errorf("the first grant is %+v, want one from 1 on", g)
	}
	if g := ask("second", 5000); g.First != 5000 {
		t.Errorf("after 5000 the grant is %+v", g)
	}
	if g := ask("third", 0); g.First != 5010 {
		t.Errorf("the next grant is %+v, want one from 5010 on", g)
	}
	if n := scrape(t, w)["store_went_back_total/store"]; n != 1 {
		t.Errorf("the metrics say that the store went back %v times, want once", n)
	}
}
