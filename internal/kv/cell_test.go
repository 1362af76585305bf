package kv_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/testing/natstest"
)

// openBucket creates and opens a bucket.
func openBucket(t *testing.T, js jetstream.JetStream) *kv.Bucket {
	t.Helper()
	natstest.CreateBucket(t, js, "b")
	b, err := kv.Open(t.Context(), js, "b")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestUpdate: a key is written at its revision only, and its deletion marker
// has a revision, too.
func TestUpdate(t *testing.T) {
	b := openBucket(t, openJetStream(t))
	expect := func(value string, revision uint64, exists bool) {
		t.Helper()
		if e, err := b.Get(t.Context(), "k"); err != nil || string(e.Value) != value || e.Revision != revision || e.Exists() != exists || e.Key != "k" {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	update := func(value string, at, want uint64) {
		t.Helper()
		revision, err := b.Update(t.Context(), "k", []byte(value), at)
		if revision != want || errors.Is(err, jetstream.ErrKeyRevisionMismatch) == (want > 0) {
			t.Fatalf("%s at %d: %d, %v", value, at, revision, err)
		}
	}
	expect("", 0, false)
	update("a", 1, 0)
	update("a", 0, 1)
	update("b", 0, 0)
	update("b", 1, 2)
	expect("b", 2, true)
	if err := b.Delete(t.Context(), "k", 1); !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "k", 2); err != nil {
		t.Fatal(err)
	}
	expect("", 3, false)
	if e, err := b.Peek(t.Context(), "k"); err != nil || e.Exists() {
		t.Fatalf("%+v, %v", e, err)
	}
	update("c", 0, 0)
	update("c", 3, 4)
	expect("c", 4, true)
	if e, err := b.Peek(t.Context(), "k"); err != nil || string(e.Value) != "c" || e.Revision != 4 {
		t.Fatalf("%+v, %v", e, err)
	}
}

// TestEdit: no concurrent edit is lost, and an edit without a change writes
// nothing.
func TestEdit(t *testing.T) {
	b := openBucket(t, openJetStream(t))
	const editors = 8
	var wg sync.WaitGroup
	for range editors {
		wg.Go(func() {
			_, err := b.Edit(t.Context(), "k", func(e kv.Entry) ([]byte, error) {
				n, _ := strconv.Atoi(string(e.Value))
				return strconv.AppendInt(nil, int64(n+1), 10), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		revision, err := b.Edit(t.Context(), "k", func(kv.Entry) ([]byte, error) { return nil, want })
		if revision != 0 || !errors.Is(err, want) {
			t.Errorf("%d, %v, want %v", revision, err, want)
		}
	}
	if e, err := b.Get(t.Context(), "k"); string(e.Value) != strconv.Itoa(editors) || e.Revision != editors || err != nil {
		t.Errorf("%s at %d, %v", e.Value, e.Revision, err)
	}
}

// TestOpen refuses a bucket that is missing, unsafe, or keeps leases forever.
func TestOpen(t *testing.T) {
	js := openJetStream(t)
	if _, err := kv.Open(t.Context(), js, "b"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("missing: %v", err)
	}
	if _, err := kv.Get(t.Context(), js, "b", "k"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("missing: %v", err)
	}
	openBucket(t, js)
	if _, err := kv.OpenLeases(t.Context(), js, "b"); !errors.Is(err, durability.ErrUnsafe) {
		t.Errorf("without expiry: %v", err)
	}
}
