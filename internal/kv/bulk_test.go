package kv_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/natstest"
)

// TestUpdateMany: changes are written on their own conditions, in an atomic
// batch or singly. A change that is refused keeps no other from being written.
func TestUpdateMany(t *testing.T) {
	t.Parallel()
	for _, atomic := range []bool{true, false} {
		t.Run(fmt.Sprintf("atomic %v", atomic), func(t *testing.T) {
			t.Parallel()
			js := openJetStream(t)
			natstest.CreateBucket(t, js, "b")
			stream, err := js.Stream(t.Context(), kv.StreamName("b"))
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			config.AllowAtomicPublish = atomic
			if _, err := js.UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			bucket, err := kv.Open(t.Context(), js, "b")
			if err != nil {
				t.Fatal(err)
			}
			var changes []kv.Write
			for n := range kv.MaxBatch {
				changes = append(changes, kv.Write{Key: fmt.Sprint("k", n), Value: []byte("1")})
			}
			revisions := make(map[string]uint64)
			for _, round := range []string{"created", "updated", "one is stale"} {
				stale := -1
				if round == "one is stale" {
					stale = 3
					changes[stale].Revision--
				}
				for i, w := range bucket.UpdateMany(t.Context(), changes) {
					key := changes[i].Key
					if i == stale {
						if !errors.Is(w.Err, jetstream.ErrKeyRevisionMismatch) {
							t.Errorf("%s: %v", round, w.Err)
						}
						continue
					}
					e, err := bucket.Get(t.Context(), key)
					if w.Err != nil || err != nil || e.Revision != w.Revision || w.Revision <= revisions[key] {
						t.Fatalf("%s: %s has revision %d, reported %d, was %d: %v, %v", round, key, e.Revision, w.Revision, revisions[key], w.Err, err)
					}
					revisions[key] = w.Revision
					changes[i].Revision = w.Revision
				}
			}
		})
	}
}
