package kv_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/natstest"
)

// TestLeaveRoom: a bucket that callers can fill ends below the account, so that
// the other buckets still have room when it is full.
func TestLeaveRoom(t *testing.T) {
	const storage = 4 << 20
	srv := natstest.Start(t)
	js := natstest.JetStream(t, srv.Connect(t))
	counts := kv.LastingBucket(kv.Lasting{Bucket: "counts", Replicas: 1, LeaveRoom: true})
	apply(t, js, counts, "created")
	apply(t, js, counts, "as it should be") // the account has no limit
	limits := map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: storage, MaxStreams: -1, MaxConsumers: -1}}
	if err := srv.Running().GlobalAccount().UpdateJetStreamLimits(limits); err != nil {
		t.Fatal(err)
	}
	apply(t, js, counts, "changed: at most 3 MB")
	apply(t, js, counts, "as it should be")
	other := kv.LastingBucket(kv.Lasting{Bucket: "others", Replicas: 1, LeaveRoom: true})
	apply(t, js, other, "created") // although most of the account is reserved
	apply(t, js, bucket(time.Hour), "created")
	var full error
	for n := 0; full == nil && n < 2*storage; n += 64 << 10 {
		_, full = js.Publish(t.Context(), fmt.Sprint("$KV.counts.", n), make([]byte, 64<<10))
	}
	if full == nil {
		t.Error("the bucket has no end")
	}
	if _, err := js.Publish(t.Context(), "$KV.b.lease", []byte("beside it")); err != nil {
		t.Errorf("another bucket beside a full one: %v", err)
	}
}

// TestLeaveRoomAtOnce: of several provisioners at a time, those that cannot
// reserve room make their buckets without a limit.
func TestLeaveRoomAtOnce(t *testing.T) {
	srv := natstest.Start(t)
	js := natstest.JetStream(t, srv.Connect(t))
	limits := map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: 4 << 20, MaxStreams: -1, MaxConsumers: -1}}
	if err := srv.Running().GlobalAccount().UpdateJetStreamLimits(limits); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			lasting := kv.LastingBucket(kv.Lasting{Bucket: fmt.Sprint("counts", n), Replicas: 1, LeaveRoom: true})
			if did, err := lasting.Apply(t.Context(), js); err != nil {
				t.Error(did, err)
			}
		})
	}
	all.Wait()
}
