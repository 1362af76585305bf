package kvwatch_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/idworker/idworker/internal/kvwatch"
	"github.com/idworker/idworker/testing/natstest"
)

func bucket(t *testing.T, keys int) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if _, err := kv.Put(t.Context(), strconv.Itoa(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	return kv
}

// TestEntriesThenChanges: the existing entries come first, then nil, then changes.
func TestEntriesThenChanges(t *testing.T) {
	kv := bucket(t, 3)
	w, err := kvwatch.Open(t.Context(), kv)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	next := func() string {
		entry, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if entry == nil {
			return "nil"
		}
		return entry.Key()
	}
	for _, want := range []string{"0", "1", "2", "nil"} {
		if got := next(); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if err := kv.Delete(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "1" {
		t.Fatalf("got %s, want the deleted key", got)
	}
}

// TestContextThatEndsAtAnyMoment neither hangs nor leaves a goroutine, whether the
// watch is being made, read, or full of entries nobody takes.
func TestContextThatEndsAtAnyMoment(t *testing.T) {
	kv := bucket(t, 300)
	before := goleak.IgnoreCurrent()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 150 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
			if w, err := kvwatch.Open(ctx, kv); err == nil {
				for range i % 20 {
					if _, err := w.Next(ctx); err != nil {
						break
					}
				}
				w.Close()
			}
			cancel()
		}
	}()
	select {
	case <-done:
	case <-time.After(natstest.Patience):
		t.Fatal("hangs")
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
