package kv_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/natstest"
)

func accept(jetstream.StreamConfig) error { return nil }

func openJetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	return natstest.JetStream(t, natstest.Start(t).Connect(t))
}

// apply calls Apply and compares its result.
func apply(t *testing.T, js jetstream.JetStream, r kv.Resource, want string) {
	t.Helper()
	did, err := r.Apply(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	if did != want {
		t.Errorf("%s: %s, want %s", r, did, want)
	}
}

func bucket(ttl time.Duration) kv.Resource {
	return kv.LeaseBucket(jetstream.KeyValueConfig{Bucket: "b", TTL: ttl, Replicas: 1})
}

func queue(age time.Duration) kv.Resource {
	return kv.Stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage, Replicas: 1, MaxAge: age}, accept)
}

func reader(wait time.Duration) kv.Resource {
	return kv.Consumer("S", jetstream.ConsumerConfig{
		Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, AckWait: wait, MaxDeliver: -1, MaxAckPending: -1,
	})
}

// TestApply: a missing resource is created, a differing setting is changed
// while all others are kept, and a correct resource is left alone.
func TestApply(t *testing.T) {
	js := openJetStream(t)
	for _, kind := range []struct {
		of      func(time.Duration) kv.Resource
		subject string // for a first message
		want    string
	}{
		{bucket, "$KV.b.1", "changed: ages after 1m30s, was 1m0s"},
		{queue, "s.1", "changed: ages after 1m30s, was 1m0s"},
		{reader, "", "changed"},
	} {
		apply(t, js, kind.of(time.Minute), "created")
		if kind.subject != "" {
			if _, err := js.Publish(t.Context(), kind.subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		apply(t, js, kind.of(time.Minute), "as it should be")
		apply(t, js, kind.of(90*time.Second), kind.want)
		apply(t, js, kind.of(90*time.Second), "as it should be")
	}
	for _, name := range []string{"KV_b", "S"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if i := stream.CachedInfo(); i.State.Msgs != 1 || i.Config.MaxAge != 90*time.Second {
			t.Errorf("stream %s has %d messages and ages after %v", name, i.State.Msgs, i.Config.MaxAge)
		}
	}
}

// TestApplyKeepsWhatWasMeant: settings unknown to this code are kept.
func TestApplyKeepsWhatWasMeant(t *testing.T) {
	js := openJetStream(t)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", MaxBytes: 1 << 20, Description: "mine", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	apply(t, js, bucket(time.Minute), "changed: ages after 1m0s, was 1h0m0s")
	stream, err := js.Stream(t.Context(), "KV_b")
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.MaxBytes != 1<<20 || c.Description != "mine" {
		t.Errorf("now it is %+v", c)
	}
}

// TestEnsure creates missing resources and leaves existing resources as they
// are.
func TestEnsure(t *testing.T) {
	js := openJetStream(t)
	for _, age := range []time.Duration{time.Minute, time.Hour} {
		if err := kv.Ensure(t.Context(), js, bucket(age), queue(age), reader(age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"KV_b", "S"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if age := stream.CachedInfo().Config.MaxAge; age != time.Minute {
			t.Errorf("stream %s ages after %v", name, age)
		}
	}
}

// TestCannotBe: a setting that cannot be corrected in place is an error, and
// nothing is changed.
func TestCannotBe(t *testing.T) {
	js := openJetStream(t)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	if _, err := bucket(time.Minute).Apply(t.Context(), js); err == nil || !strings.Contains(err.Error(), "storage is Memory, must be File") {
		t.Errorf("a bucket in memory: %v", err)
	}
	counters := kv.LastingBucket(kv.Lasting{Bucket: "b", Replicas: 1})
	if _, err := counters.Apply(t.Context(), js); !errors.Is(err, durability.ErrUnsafe) {
		t.Errorf("a bucket of counters in memory: %v", err)
	}
	unfit := errors.New("unfit")
	bad := kv.Stream(jetstream.StreamConfig{Name: "KV_b"}, func(jetstream.StreamConfig) error { return unfit })
	if _, err := bad.Apply(t.Context(), js); !errors.Is(err, unfit) {
		t.Errorf("a stream that is checked: %v", err)
	}
	if err := bad.Ensure(t.Context(), js); !errors.Is(err, unfit) {
		t.Errorf("a stream that is checked: %v", err)
	}
}

// TestMissing: a resource that cannot be created is named.
func TestMissing(t *testing.T) {
	js := openJetStream(t)
	// On one server.
	five := kv.LastingBucket(kv.Lasting{Bucket: "b", Replicas: 5})
	var missing *kv.MissingError
	ensure := func(ctx context.Context, js jetstream.JetStream) error { return kv.Ensure(ctx, js, five) }
	for _, try := range []func(context.Context, jetstream.JetStream) error{
		ensure,
		func(ctx context.Context, js jetstream.JetStream) error { _, err := five.Apply(ctx, js); return err },
	} {
		if err := try(t.Context(), js); !errors.As(err, &missing) || missing.Resource.String() != "bucket b" {
			t.Errorf("a bucket that cannot be: %v", err)
		}
	}
}
