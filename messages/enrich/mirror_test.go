package enrich

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/testing/natstest"
)

// A mirror of the source that answers in its place, but keeps less, does not
// make planned events disappear.
func TestMirrorThatKeepsLess(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.raw.>"}, AllowDirect: true})
	mirror := b.stream(jetstream.StreamConfig{Name: "COPY", Mirror: &jetstream.StreamSource{Name: "ORDERS"}, MirrorDirect: true})
	b.publish(1, 50)
	natstest.Eventually(t, "the mirror has the events", func() bool {
		info, err := mirror.Info(t.Context())
		return err == nil && info.State.LastSeq == 50
	})
	if err := mirror.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.put(enrichmentRecord{Plans: []plan{{Through: 50, Runs: []run{{1, 50}}}}})
	b.start(b.config())
	b.await(50)
	b.expectAll(50)
}
