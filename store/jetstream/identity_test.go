package jetstream

import (
	"errors"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
)

// TestMadeAgain: in a bucket that was lost and made again no tag comes into being by itself, until somebody
// has decided; whoever opens it, and whoever had it open. Other tags are not concerned.
func TestMadeAgain(t *testing.T) {
	t.Parallel()
	srv := single{natstest.Start(t)}
	js := srv.js(t)
	if err := resource.Ensure(t.Context(), js, agreement.Bucket(messages.DefaultPrefix, 1)); err != nil {
		t.Fatal(err)
	}
	before := fresh(t, srv, messages.DefaultPrefix, 1)
	chat := store.Tag{Name: "chat.1", Step: 10, Next: 1}
	if seg, err := before.ReserveFirst(t.Context(), chat, 10); err != nil || seg.First != 1 {
		t.Fatal(seg, err)
	}
	if err := js.DeleteKeyValue(t.Context(), BucketName(messages.DefaultPrefix)); err != nil {
		t.Fatal(err)
	}
	after := fresh(t, srv, messages.DefaultPrefix, 1)
	for name, s := range map[string]*Store{"opened before": before, "opened after": after} {
		if seg, err := s.ReserveFirst(t.Context(), chat, 10); !errors.Is(err, store.ErrUncertain) {
			t.Errorf("%s: %v, %v of a tag that the lost bucket had", name, seg, err)
		}
	}
	if err := after.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1000}); err != nil {
		t.Error(err)
	}
	if seg, err := before.Reserve(t.Context(), "order", 10); err != nil {
		t.Error(seg, err)
	}
	if err := after.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	chat.Next = 1_000_001
	if seg, err := before.ReserveFirst(t.Context(), chat, 10); err != nil || seg.First != chat.Next {
		t.Errorf("decided: %v, %v", seg, err)
	}
}

// TestFirstAfterDeletion: a key that somebody deleted by hand had a counter that nobody knows, so its tag does
// not come into being by itself, wherever tags of its template begin.
func TestFirstAfterDeletion(t *testing.T) {
	t.Parallel()
	s := fresh(t, single{natstest.Start(t)}, messages.DefaultPrefix, 1)
	chat := store.Tag{Name: "chat.1", Step: 10, Next: 50}
	if _, err := s.ReserveFirst(t.Context(), chat, 10); err != nil {
		t.Fatal(err)
	}
	if err := s.kv.Delete(t.Context(), chat.Name, natsjs.LastRevision(1)); err != nil {
		t.Fatal(err)
	}
	if seg, err := s.ReserveFirst(t.Context(), chat, 10); !errors.Is(err, store.ErrBadTag) {
		t.Errorf("%v, %v", seg, err)
	}
}
