package enrich

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/testing/memory"
)

// TestPublishingIsSmall: a batch takes memory for its messages, not for 65,536
// replies.
func TestPublishingIsSmall(t *testing.T) {
	const batches, most = 50, 64 << 10
	b := newBed(t)
	b.stream(readyConfig)
	p := publisher{conn: b.conn, stream: readyConfig.Name, most: maxBatch}
	bytes := memory.Allocated(func() {
		for last := range uint64(batches) {
			event := nats.NewMsg("orders.ready.1")
			if err := p.publish(t.Context(), []*nats.Msg{event}, last); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("%d bytes a batch", bytes/batches)
	if bytes/batches > most {
		t.Errorf("%d bytes a batch of one event, want %d at most", bytes/batches, most)
	}
}
