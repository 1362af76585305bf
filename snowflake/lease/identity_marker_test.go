package lease

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/natstest"
)

// TestIdentityDeletedByHand: an identity that was deleted leaves a marker, and
// can be made again.
func TestIdentityDeletedByHand(t *testing.T) {
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	natstest.CreateBucket(t, js, "ids_clock")
	clocks, err := kv.Open(t.Context(), js, "ids_clock")
	if err != nil {
		t.Fatal(err)
	}
	b := kvBucket{js, clocks}
	if _, err := makeIdentity(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := clocks.Delete(t.Context(), identityKey, 1); err != nil {
		t.Fatal(err)
	}
	id, err := makeIdentity(t.Context(), b)
	if err != nil || id == "" {
		t.Fatalf("%q, %v", id, err)
	}
}
