package kv_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
)

// TestLastingBucketKeepsEntries: the server refuses to purge an entry of a
// bucket whose entries must last, or to replace all of them by a roll-up. A
// bucket that allows that, as after a restore by hand, is corrected, but not
// while its settings are held.
func TestLastingBucketKeepsEntries(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		js := openJetStream(t)
		config := jetstream.KeyValueConfig{Bucket: "b", Metadata: map[string]string{"made": "by us"}}
		held := errors.New("held")
		settings := kv.Lasting{Bucket: config.Bucket, Metadata: config.Metadata}
		lasting := kv.LastingBucket(settings)
		if old {
			if _, err := js.CreateKeyValue(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			if found, err := lasting.Look(t.Context(), js); err != nil || !strings.Contains(found.Difference, "purges denied") {
				t.Errorf("an old bucket: %+v, %v", found, err)
			}
			settings.Hold = func(jetstream.StreamConfig) error { return held }
			if _, err := kv.LastingBucket(settings).Apply(t.Context(), js); !errors.Is(err, held) {
				t.Errorf("changed although held: %v", err)
			}
		}
		if did, err := lasting.Apply(t.Context(), js); err != nil {
			t.Fatalf("%s, %v", did, err)
		}
		if did, err := lasting.Apply(t.Context(), js); err != nil || did != "as it should be" {
			t.Errorf("again: %s, %v", did, err)
		}
		bucket, err := js.KeyValue(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"x", "y"} {
			if _, err := bucket.PutString(t.Context(), key, "1"); err != nil {
				t.Fatal(err)
			}
		}
		stream, err := js.Stream(t.Context(), kv.StreamName("b"))
		if err != nil {
			t.Fatal(err)
		}
		if c := stream.CachedInfo().Config; c.Metadata["made"] != "by us" || !c.AllowAtomicPublish {
			t.Errorf("the settings are %+v", c)
		}
		for what, err := range map[string]error{
			"purge of an entry": stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.b.x")),
			"purge":             stream.Purge(t.Context()),
			"deletion":          stream.DeleteMsg(t.Context(), 1),
			"roll-up":           bucket.Purge(t.Context(), "x"),
		} {
			if err == nil {
				t.Errorf("old %v: %s is allowed", old, what)
			}
		}
		if err := bucket.Delete(t.Context(), "x"); err != nil { // leaves a marker
			t.Error(err)
		}
		if e, err := bucket.Get(t.Context(), "y"); err != nil || string(e.Value()) != "1" {
			t.Errorf("%v, %v", e, err)
		}
	}
}
