package backup

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
)

// TestUnreadableRegisterIsReplaced: a register that cannot be opened is replaced
// only on demand, after its entries were saved. Also its tags that the backup
// lacks exist afterwards, with their orders.
func TestUnreadableRegisterIsReplaced(t *testing.T) {
	t.Parallel()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	if err = errors.Join(err, agreement.Begin(t.Context(), js, prefix, 1, "test"), register.Create(t.Context(), js, prefix, 1)); err != nil {
		t.Fatal(err)
	}
	create := func(name string) {
		t.Helper()
		all, err := tags.Open(t.Context(), js, prefix, source)
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		if err := all.Create(t.Context(), store.Tag{Name: name, Step: 10, Next: 1, Order: store.Strict}); err != nil {
			t.Fatal(err)
		}
	}
	create("early")
	taken, err := Take(t.Context(), js, prefix, source, "test")
	if err != nil {
		t.Fatal(err)
	}
	create("late")
	var saved map[string]string
	restore := func(salvage func(map[string]string) error) error {
		_, err := Restoring{
			Backup: taken, Salvage: salvage, Resources: func(int) []kv.Resource { return nil },
			Confirm: func(RestorePlan) error { return nil }, Report: func(tags.Change) {},
		}.Restore(t.Context(), js, prefix, source)
		return err
	}
	save := func(entries map[string]string) error { saved = entries; return nil }
	if err := restore(save); !errors.Is(err, tags.ErrReadable) {
		t.Errorf("a readable register was replaced: %v", err)
	}
	name := kv.StreamName(register.BucketName(prefix))
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	unsafe := stream.CachedInfo().Config
	unsafe.MaxAge = 24 * time.Hour
	if _, err := js.UpdateStream(t.Context(), unsafe); err != nil {
		t.Fatal(err)
	}
	if err := restore(nil); !errors.Is(err, tags.ErrUnreadable) {
		t.Errorf("an unreadable register: %v", err)
	}
	if err := restore(save); err != nil {
		t.Fatal(err)
	}
	if len(saved) != 2 {
		t.Errorf("saved: %v", saved)
	}
	all, err := tags.Open(t.Context(), js, prefix, source)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	list, _, err := all.List(t.Context(), "")
	if err != nil || len(list.Tags) != 2 {
		t.Fatal(list.Tags, err)
	}
	for _, tag := range list.Tags {
		if tag.Order != store.Strict || tag.Next < taken.Taken.UnixMicro() {
			t.Errorf("%+v", tag)
		}
	}
}
