package enrich

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/testing/natstest"
)

// Tests of an enricher's readiness: it is ready if a batch has landed, or if no
// event waits.

// While the target is silent, an enricher that owns the record is not ready.
func TestNotReadyWhileTargetIsSilent(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 1)
	e, _ := b.start(b.hastyConfig())
	b.await(1)
	if _, err := b.conn.Subscribe("orders.ready.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	b.stream(jetstream.StreamConfig{Name: "READY", Subjects: []string{"elsewhere"}, AllowAtomicPublish: true})
	b.ids.away.Store(true)
	b.publish(2, 2)
	natstest.Eventually(t, "the enrichment stands still", func() bool { return e.Ready() != nil })
	b.ids.away.Store(false)
	revision := func() uint64 {
		kv, err := b.js.KeyValue(t.Context(), "ids_enrich")
		if err != nil {
			t.Fatal(err)
		}
		entry, err := kv.Get(t.Context(), "READY")
		if err != nil {
			t.Fatal(err)
		}
		return entry.Revision()
	}
	began := revision()
	natstest.Eventually(t, "the plan and some heartbeats", func() bool { return revision() >= began+4 })
	if e.Ready() == nil {
		t.Error("the enricher is ready, though the event has not arrived")
	}
	b.stream(readyConfig)
	b.await(2)
	natstest.Eventually(t, "the enrichment works", func() bool { return e.Ready() == nil })
}

// An enricher that waits for its turn is ready again when no event waits, even
// if it has none to stamp.
func TestReadyWithoutTurn(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 1)
	one, _ := b.start(b.hastyConfig())
	two, _ := b.start(b.hastyConfig())
	b.await(1)
	b.server.Stop()
	natstest.Eventually(t, "both fail", func() bool { return one.Ready() != nil && two.Ready() != nil })
	b.server.Restart()
	natstest.Eventually(t, "both are ready", func() bool { return one.Ready() == nil && two.Ready() == nil })
}

// A publisher that constantly writes to the target keeps the enricher from
// publishing, and makes it not ready. Here a responder in place of the target
// simulates that.
func TestNotReadyWhileOthersWrite(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 1)
	e, _ := b.start(b.config())
	b.await(1)
	answers, err := b.conn.Subscribe("orders.ready.>", func(msg *nats.Msg) {
		_ = msg.Respond([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"}}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.stream(jetstream.StreamConfig{Name: "READY", Subjects: []string{"elsewhere"}, AllowAtomicPublish: true})
	b.publish(2, 1000)
	natstest.Eventually(t, "the enricher says that it fails", func() bool { return e.Ready() != nil })
	if err := answers.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	b.stream(readyConfig)
	b.await(1000)
	b.expectAll(1000)
	natstest.Eventually(t, "the enrichment works", func() bool { return e.Ready() == nil })
}

// A server may accept fewer messages in a batch than a plan has. Then the plan
// is published in parts, and that is no failure.
func TestServerTakesSmallBatches(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 100} {
		b := newBed(t, func(o *server.Options) { o.JetStreamLimits.MaxBatchSize = most })
		core, logs := observer.New(zap.ErrorLevel)
		cfg := b.patientConfig()
		cfg.Log = zap.New(core)
		b.publish(1, 300)
		b.start(cfg)
		b.await(300)
		b.expectAll(300)
		if logs.Len() > 0 {
			t.Errorf("at most %d: %v", most, logs.All())
		}
	}
}

// A source may limit the lifetime of its consumers.
func TestSourceLimitsConsumers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	orders := ordersConfig
	orders.ConsumerLimits = jetstream.StreamConsumerLimits{InactiveThreshold: time.Second, MaxAckPending: 1}
	b.stream(orders)
	b.publish(1, 5)
	b.start(b.config())
	b.await(5)
	b.publish(6, 10)
	b.await(10)
	b.expectAll(10)
}

// The second of two plans in the record turns out to be outdated while the
// first is in flight: it is dropped when the first has landed.
func TestSecondPlanChanges(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.publish(1, 1100)
	source, err := b.js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	if err := source.DeleteMsg(t.Context(), 1002); err != nil {
		t.Fatal(err)
	}
	b.put(enrichmentRecord{Plans: []plan{{1000, b.storedAt(1000), []run{{1, 1000}}}, {1003, b.storedAt(1003), []run{{1001, 3}}}}})
	b.start(b.config())
	b.await(1099)
	b.publish(1101, 1110)
	b.await(1109)
}

// storedAt returns the time at which the source stored an event.
func (b *bed) storedAt(seq uint64) time.Time {
	b.Helper()
	source, err := b.js.Stream(b.Context(), "ORDERS")
	if err != nil {
		b.Fatal(err)
	}
	msg, err := source.GetMsg(b.Context(), seq)
	if err != nil {
		b.Fatal(err)
	}
	return msg.Time
}
