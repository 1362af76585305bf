package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/testing/natstest"
)

// enrichment is a source, a target, a worker that issues IDs, and the events
// that have arrived.
type enrichment struct {
	t      testing.TB
	url    string
	js     jetstream.JetStream
	worker *process
	sent   int // events in the source: event n is the number n

	arrived int    // events in the target
	next    uint64 // next sequence to read in the target
	ids     ledger
}

var (
	sourceConfig = jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}, Duplicates: 2 * time.Minute}
	targetConfig = jetstream.StreamConfig{Name: "READY", Subjects: []string{"orders.ready.>"}, AllowAtomicPublish: true, Duplicates: duplicateWindow}
)

// fastTarget is a target that takes fast batches.
func fastTarget() jetstream.StreamConfig {
	cfg := targetConfig
	cfg.AllowBatchPublish = true
	return cfg
}

// headerID is where the ID of an event is.
const headerID = "Ids-Id"

// duplicateWindow is that of the target.
const duplicateWindow = 200 * time.Millisecond

func newEnrichment(t testing.TB) *enrichment {
	t.Helper()
	ns := natstest.Start(t, syncAlways)
	return newEnrichmentAt(t, ns.URL(), ns.Connect(t), 1)
}

// newEnrichmentAt makes an enrichment on servers that are there, with so many
// copies of all.
func newEnrichmentAt(t testing.TB, url string, conn *nats.Conn, replicas int) *enrichment {
	t.Helper()
	js := natstest.JetStream(t, conn, jetstream.WithPublishAsyncMaxPending(publishedAtOnce), jetstream.WithPublishAsyncTimeout(5*time.Second))
	e := &enrichment{t: t, url: url, js: js, next: 1, ids: ledger{tag: "order"}}
	for _, cfg := range []jetstream.StreamConfig{sourceConfig, targetConfig} {
		cfg.Replicas = replicas
		e.create(cfg)
	}
	e.worker = startWorker(t, url, "--replicas", strconv.Itoa(replicas))
	createTag(t, url, "order", "--step", "10000")
	return e
}

func (e *enrichment) create(cfg jetstream.StreamConfig) {
	e.t.Helper()
	if _, err := e.js.CreateOrUpdateStream(e.t.Context(), cfg); err != nil {
		e.t.Fatal(err)
	}
}

func enrichFlags(url string) []string {
	return []string{"enrich", "--server", url, "--from", "ORDERS", "--filter", "orders.raw.>", "--to", "orders.ready.>", "--id", "segment:order"}
}

// tryStart runs an enricher, and returns when it has begun or ended.
func (e *enrichment) tryStart(url string, flags ...string) *process {
	e.t.Helper()
	p := settings{}.launch(e.t, append(enrichFlags(url), flags...)...)
	natstest.Eventually(e.t, "an enricher runs", func() bool { return p.says("enriching\t") > 0 || p.hasEnded() })
	return p
}

const eventSubjects = 100

// publishedAtOnce is how many events are on their way to the source.
const publishedAtOnce = 10_000

// publish publishes the next n events, and returns when the source has them,
// each once: Nats-Msg-Id ensures that, for the source's duplicate window is
// longer than a test tries.
func (e *enrichment) publish(n int) {
	e.t.Helper()
	for end := e.sent + n; e.sent < end; {
		var events []int
		for range min(publishedAtOnce, end-e.sent) {
			e.sent++
			events = append(events, e.sent)
		}
		natstest.Eventually(e.t, "the source has the events", func() bool {
			events = e.tryPublish(events)
			return len(events) == 0
		})
	}
}

// tryPublish publishes events, and returns those that the source did not
// confirm.
func (e *enrichment) tryPublish(events []int) (failed []int) {
	acks := make([]jetstream.PubAckFuture, len(events))
	for i, n := range events {
		acks[i], _ = e.js.PublishMsgAsync(event(n)) // an error leaves no future
	}
	for i, ack := range acks {
		if !acknowledged(ack) {
			failed = append(failed, events[i])
		}
	}
	return failed
}

func event(n int) *nats.Msg {
	number := strconv.Itoa(n)
	return &nats.Msg{Subject: fmt.Sprintf("orders.raw.%d", n%eventSubjects), Data: []byte(number), Header: nats.Header{nats.MsgIdHdr: {number}}}
}

// acknowledged waits for the answer. JetStream's client bounds the wait.
func acknowledged(ack jetstream.PubAckFuture) bool {
	if ack == nil {
		return false
	}
	select {
	case <-ack.Ok():
		return true
	case err := <-ack.Err():
		return err == nil
	}
}

// last is the last sequence of a stream, if it is known.
func (e *enrichment) last(stream string) uint64 {
	ctx, cancel := context.WithTimeout(e.t.Context(), 2*time.Second)
	defer cancel()
	s, err := e.js.Stream(ctx, stream)
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.LastSeq
}

// await waits until the target has had n messages beyond those that were read.
func (e *enrichment) await(n int) {
	e.t.Helper()
	want := e.next - 1 + uint64(n)
	natstest.Eventually(e.t, fmt.Sprintf("%d messages in the target", want), func() bool { return e.last("READY") >= want })
}

// check reads the target's new events, and fails the test unless they are the
// next events in order, each with an ID of its own.
func (e *enrichment) check() {
	e.t.Helper()
	wrong := 0
	for _, msg := range natstest.ReadStream(e.t, e.js, "READY", e.next, ">") {
		e.next++
		e.arrived++
		id, err := strconv.ParseInt(msg.Headers().Get(headerID), 10, 64)
		if err != nil || len(msg.Headers()[headerID]) != 1 {
			e.t.Fatalf("event %s has the IDs %q", msg.Data(), msg.Headers()[headerID])
		}
		e.ids.add([]messages.Range{{First: id, Last: id}})
		if string(msg.Data()) == strconv.Itoa(e.arrived) && msg.Subject() == fmt.Sprintf("orders.ready.%d", e.arrived%eventSubjects) {
			continue
		}
		if wrong++; wrong <= 3 {
			e.t.Errorf("event %s on %s with ID %d at place %d: doubled, lost or out of order", msg.Data(), msg.Subject(), id, e.arrived)
		}
	}
	e.ids.check(e.t)
}

// checkAll waits until as many events have arrived as were sent, and checks
// them all.
func (e *enrichment) checkAll() {
	e.t.Helper()
	e.await(e.sent - e.arrived)
	e.check()
	if e.arrived != e.sent {
		e.t.Errorf("%d events arrived, %d were sent", e.arrived, e.sent)
	}
}

// owner is the process whose turn it is, or nil.
func (e *enrichment) owner(among []*process) *process {
	kv, err := e.js.KeyValue(e.t.Context(), enrich.BucketName(messages.DefaultPrefix))
	if err != nil {
		return nil
	}
	entry, err := kv.Get(e.t.Context(), "READY")
	if err != nil {
		return nil
	}
	var record struct{ Owner string }
	if err := json.Unmarshal(entry.Value(), &record); err != nil {
		e.t.Fatal(err)
	}
	for _, p := range among {
		if record.Owner != "" && strings.Contains(p.stderr.String(), record.Owner) {
			return p
		}
	}
	return nil
}
