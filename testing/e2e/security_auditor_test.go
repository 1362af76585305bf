package e2e

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAuditorChangesNothing: the server sends the answer to any request wherever its reply
// subject says, with the rights of no one. The auditor asks all that it may, for answers on
// subjects of every stream: none of them takes one, and nobody's consumer is touched.
func TestAuditorChangesNothing(t *testing.T) {
	t.Parallel()
	net := startProduction(t, natsConf)
	net.provision()
	admin := net.connect("orders-admin")
	enrichByHand(t, admin, net.connect("enricher"))
	before := lastSequences(t, admin)

	auditor := net.connect("orders-auditor")
	asked := 0
	for _, subject := range userNamed("orders-auditor").Rights.Publish {
		if _, err := auditor.Request(subject, []byte(`{"seq":1}`), 10*time.Second); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
		for _, reply := range []string{"orders.raw.forged", "orders.ready.forged", "orders.dead", "$KV.ids_enrich.ORDERS_READY", "ids.segment.order"} {
			for _, body := range []string{"", `{"seq":1}`, `{"subject":"orders.raw.x"}`} {
				if err := auditor.PublishRequest(subject, reply, []byte(body)); err != nil {
					t.Fatal(err)
				}
				asked++
			}
		}
	}
	for _, subject := range userNamed("orders-auditor").Rights.Publish { // answered behind those before
		if _, err := auditor.Request(subject, []byte(`{"seq":1}`), 10*time.Second); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if after := lastSequences(t, admin); !maps.Equal(after, before) {
		t.Errorf("the streams ended at %v, and after %d requests of the auditor at %v", before, asked, after)
	}

	// Even if its list of rights were longer, its account has no way to make or delete a consumer.
	for _, right := range userNamed("orders-auditor").Rights.Publish {
		if strings.Contains(right, "CONSUMER") {
			t.Errorf("the auditor may ask %s", right)
		}
	}
	refusedNothing(t, net)
}

// lastSequences are the last sequences of the streams of the account ORDERS.
func lastSequences(t *testing.T, admin *nats.Conn) map[string]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	js, err := jetstream.New(admin)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]uint64{}
	for _, name := range []string{sourceStream, targetStream, enrichBucket} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		last[name] = s.CachedInfo().State.LastSeq
	}
	return last
}
