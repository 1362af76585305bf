package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/testing/natstest"
)

const natsConf = "../../nats.conf"

// TestEveryRoleWorks has every user of nats.conf do everything that its role is for. The
// server must refuse nothing meanwhile.
func TestEveryRoleWorks(t *testing.T) {
	t.Parallel()
	everyRoleWorks(t, startProduction(t, natsConf), true)
}

// everyRoleWorks needs a server that is new enough to enrich for that part.
func everyRoleWorks(t *testing.T, net *production, enriches bool) {
	t.Helper()
	net.provision()
	for _, line := range net.must("admin", "provision", "--part", "ids").lines() {
		if !strings.HasSuffix(line, ": as it should be") {
			t.Errorf("provisioned twice: %s", line)
		}
	}
	worker := net.serve("worker", "--role", "worker")
	loader := net.serve("loader", "--role", "loader")

	net.must("admin", "tag", "create", "order", "--step", "10")
	net.must("admin", "tag", "set", "order", "--step", "20")
	if ls := net.must("admin", "tag", "ls").stdout; !strings.Contains(ls, "order") {
		t.Errorf("tag ls: %s", ls)
	}
	if held := net.must("admin", "workers").stdout; !strings.Contains(held, worker.instance()) {
		t.Errorf("workers: %s", held)
	}
	for _, caller := range []string{"admin", "caller", "order", "enricher"} {
		net.must(caller, "get", "order", "100") // many times the step
		if caller != "order" {
			net.must(caller, "get", "--snowflake", "3")
		}
	}
	if len(stats(t, net.connect("admin"), 1)) != 1 {
		t.Error("an administrator cannot see the service")
	}
	for _, role := range []string{"worker", "loader", "admin"} {
		if !syncsAlways(t, net.connect(role)) {
			t.Errorf("%s cannot see that the server syncs always", role)
		}
	}
	if enriches {
		everyEnrichingRoleWorks(t, net)
	}
	refusedNothing(t, net)

	// Both go on after a restart of the server, without the right to create anything.
	before := loadsByStream(t, net.connect("admin"))
	net.crash()
	natstest.Eventually(t, "IDs after a restart, by way of the load stream", func() bool {
		r := net.as("caller").run(t, "get", "order", "1000")
		return r.code == 0 && loadsByStream(t, net.connect("admin")) > before
	})
	worker.stop(syscall.SIGTERM)
	loader.stop(syscall.SIGTERM)
	refusedNothing(t, net)
}

func everyEnrichingRoleWorks(t *testing.T, net *production) {
	t.Helper()
	enrichByHand(t, net.connect("orders-admin"), net.connect("enricher"))
	runEnricher(t, net)
	verified := net.as("orders-auditor").run(t, "enrich", "verify", "--no-consumers", "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.done.>", "--dead-letter", "orders.dead")
	if verified.code != exitOK {
		t.Errorf("the auditor (%d):\n%s%s", verified.code, verified.stdout, verified.stderr)
	}
}

// runEnricher has the real enricher stamp what enrichByHand left in the source stream.
func runEnricher(t *testing.T, net *production) {
	t.Helper()
	flags := []string{"enrich", "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.done.>",
		"--id", "segment:order", "--dead-letter", "orders.dead"}
	net.as("enricher").mustRun(t, append(flags, "--resume-after", "0")...) // there is no record of what was done by hand
	p := net.as("enricher").launch(t, flags...)
	js, err := jetstream.New(net.connect("enricher"))
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "events are stamped", func() bool {
		target, err := js.Stream(t.Context(), "ORDERS_READY")
		return p.hasEnded() || err == nil && target.CachedInfo().State.Msgs > 20 // 11 are there before
	})
	p.stop(syscall.SIGTERM)
	kv, err := js.KeyValue(t.Context(), enrich.BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	record, err := kv.Get(t.Context(), "ORDERS_READY")
	if err != nil || !strings.Contains(string(record.Value()), `"installation":"`) {
		t.Errorf("the record does not say whose IDs the events have: %s, %v", record.Value(), err)
	}
}

func refusedNothing(t *testing.T, net *production) {
	t.Helper()
	for _, v := range net.violations() {
		t.Errorf("refused: %s", v)
	}
}

// loadsByStream is how many load events the stream has ever taken.
func loadsByStream(t *testing.T, admin *nats.Conn) uint64 {
	t.Helper()
	defer admin.Close()
	js, err := jetstream.New(admin)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), loads.StreamName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// syncsAlways asks as a worker can, by what the system account exports.
func syncsAlways(t *testing.T, conn *nats.Conn) bool {
	t.Helper()
	msg, err := conn.Request("$SYS.REQ.SERVER.PING.JSZ", []byte(`{"config":true}`), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Data struct {
			Config struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"data"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Data.Config.SyncAlways
}

// enrichByHand does what an enricher does: it reads one stream, writes atomic batches to the
// other, checks what is there, and records its progress in its bucket.
func enrichByHand(t *testing.T, admin, enricher *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	owner, err := jetstream.New(admin)
	check("JetStream", err)
	_, err = owner.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}})
	check("create ORDERS", err)
	_, err = owner.CreateStream(ctx, jetstream.StreamConfig{
		Name: "ORDERS_READY", Subjects: []string{"orders.ready.>", "orders.dead"}, AllowDirect: true, AllowAtomicPublish: true,
	})
	check("create ORDERS_READY", err)
	const events = 10
	for i := range events {
		_, err := owner.Publish(ctx, fmt.Sprintf("orders.raw.%d", i), nil)
		check("publish an event", err)
	}

	js, err := jetstream.New(enricher)
	check("JetStream", err)
	source, err := js.OrderedConsumer(ctx, "ORDERS", jetstream.OrderedConsumerConfig{})
	check("read the source", err)
	in, err := source.Messages()
	check("read the source", err)
	for i := range events {
		_, err := in.Next(jetstream.NextMaxWait(10 * time.Second))
		check("next event", err)
		msg := nats.NewMsg(fmt.Sprintf("orders.ready.%d", i))
		msg.Header.Set("Nats-Batch-Id", "batch")
		msg.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i+1))
		if i+1 == events {
			msg.Header.Set("Nats-Batch-Commit", "1")
		}
		_, err = enricher.RequestMsg(msg, 10*time.Second)
		check("publish in a batch", err)
	}
	in.Stop()
	_, err = js.Publish(ctx, "orders.dead", nil)
	check("publish a dead letter", err)

	target, err := js.Stream(ctx, "ORDERS_READY")
	check("look at the target", err)
	if n := target.CachedInfo().State.Msgs; n != events+1 {
		t.Errorf("%d messages in the target, want %d", n, events+1)
	}
	_, err = enricher.Request("$JS.API.STREAM.MSG.GET.ORDERS_READY", []byte(`{"seq":1}`), 10*time.Second)
	check("read from the target's leader", err)

	kv, err := js.KeyValue(ctx, enrich.BucketName(messages.DefaultPrefix))
	check("open the bucket", err)
	revision, err := kv.Create(ctx, "ORDERS", []byte("1"))
	check("create a key", err)
	_, err = kv.Update(ctx, "ORDERS", []byte("2"), revision)
	check("update a key", err)
	_, err = kv.Get(ctx, "ORDERS")
	check("read a key", err)
	flush(t, enricher)
}
