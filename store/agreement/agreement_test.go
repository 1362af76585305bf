package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/testing/natstest"
)

func openJetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	return natstest.JetStream(t, natstest.Start(t).Connect(t))
}

func open(t *testing.T, js jetstream.JetStream) *agreement.Agreement {
	t.Helper()
	if err := kv.Ensure(t.Context(), js, agreement.Bucket(messages.DefaultPrefix, 1)); err != nil {
		t.Fatal(err)
	}
	a, err := agreement.Open(t.Context(), js, messages.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Of many concurrent callers one wins, and all get its value, then and later.
func TestAllAgree(t *testing.T) {
	js := openJetStream(t)
	a := open(t, js)
	if value, found, err := a.Find(t.Context(), "key"); found || err != nil {
		t.Errorf("before anybody wrote: %q, %v", value, err)
	}
	for _, key := range []string{"key", "deleted"} {
		if key == "deleted" { // a deletion marker takes the place of a value
			kv, err := js.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kv.Put(t.Context(), key, []byte("old")); err != nil {
				t.Fatal(err)
			}
			if err := kv.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		const all = 32
		var got [all]string
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				var err error
				if got[i], err = a.Agree(t.Context(), key, fmt.Sprint("opinion ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, g := range got {
			if g != got[0] || g == "" || g == "old" {
				t.Fatalf("%s: opinions differ: %q", key, got)
			}
		}
		if value, found, err := a.Find(t.Context(), key); value != got[0] || !found || err != nil {
			t.Errorf("%s: later %q, %v, want %q", key, value, err, got[0])
		}
	}
}

func TestOpenMissingOrUnsafe(t *testing.T) {
	js := openJetStream(t)
	if _, err := agreement.Open(t.Context(), js, messages.DefaultPrefix); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("missing: %v", err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "ids_config", Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	if _, err := agreement.Open(t.Context(), js, messages.DefaultPrefix); !errors.Is(err, durability.ErrUnsafe) {
		t.Errorf("in memory: %v", err)
	}
}

// The first store that is claimed is the installation's. Another is refused,
// and both are named.
func TestOneStore(t *testing.T) {
	a := open(t, openJetStream(t))
	if err := a.CheckStore(t.Context(), "mysql a.leaf_alloc"); err != nil {
		t.Errorf("before anybody claimed one: %v", err)
	}
	for range 2 {
		if err := a.ClaimStore(t.Context(), "jetstream"); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.CheckStore(t.Context(), "jetstream"); err != nil {
		t.Error(err)
	}
	for what, check := range map[string]func(context.Context, string) error{"claim": a.ClaimStore, "check": a.CheckStore} {
		var foreign *agreement.ForeignStoreError
		err := check(t.Context(), "mysql a.leaf_alloc")
		if !errors.As(err, &foreign) || foreign.Installed != "jetstream" || foreign.Given != "mysql a.leaf_alloc" {
			t.Errorf("%s of another store: %v", what, err)
		}
	}
}

// Many callers create the installation's ID once, and its age is the bucket's.
func TestOneInstallation(t *testing.T) {
	js := openJetStream(t)
	a := open(t, js)
	const all = 16
	var got [all]string
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			id, created, err := a.Installation(t.Context())
			if err != nil {
				t.Error(err)
			}
			got[i] = fmt.Sprint(id, " ", created)
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatalf("installations differ: %q", got)
		}
	}
	stream, err := js.Stream(t.Context(), "KV_ids_config")
	if err != nil {
		t.Fatal(err)
	}
	id, created, err := open(t, js).Installation(t.Context())
	if err != nil || len(id) < 20 || fmt.Sprint(id, " ", created) != got[0] || !created.Equal(stream.CachedInfo().Created) {
		t.Errorf("%q, %v, %v; want %q, since %v", id, created, err, got[0], stream.CachedInfo().Created)
	}
	if other, _, err := open(t, openJetStream(t)).Installation(t.Context()); other == id || err != nil {
		t.Errorf("another installation: %q, %v", other, err)
	}
}

// TestLostInstallation: an ID that was deleted, or whose bucket was emptied, is not
// made anew.
func TestLostInstallation(t *testing.T) {
	js := openJetStream(t)
	bucket, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: agreement.BucketName(messages.DefaultPrefix)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agreement.Open(t.Context(), js, messages.DefaultPrefix)
	if err == nil {
		_, _, err = a.Installation(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, lose := range []func() error{
		func() error { return bucket.Delete(t.Context(), agreement.InstallationKey) },
		func() error {
			stream, err := js.Stream(t.Context(), "KV_"+bucket.Bucket())
			if err == nil {
				err = stream.Purge(t.Context())
			}
			return err
		},
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		a, err := agreement.Open(t.Context(), js, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		var lost *kv.OlderError
		if id, _, err := a.Installation(t.Context()); !errors.As(err, &lost) || lost.Key != agreement.InstallationKey {
			t.Errorf("%s, %v", id, err)
		}
	}
	// Nothing in the bucket shows that it was in use, but another bucket does.
	a = open(t, openJetStream(t))
	trace := ""
	older := func(context.Context, jetstream.JetStream) (string, error) { return trace, nil }
	trace = "a tag"
	var lost *kv.OlderError
	if id, _, err := a.Installation(t.Context(), older); !errors.As(err, &lost) || lost.What != trace {
		t.Errorf("beside a trace: %s, %v", id, err)
	}
	if err := a.Announce(t.Context(), agreement.Announcement{Floor: 1000}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Installation(t.Context(), older); err != nil {
		t.Errorf("after a decision: %v", err)
	}
}

// An unreadable ID is an error: a new ID would be another installation.
func TestUnreadableInstallation(t *testing.T) {
	js := openJetStream(t)
	a := open(t, js)
	kv, err := js.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"", "X", "X ", " 2026-01-01T00:00:00Z", "X yesterday", "X.Y 2026-01-01T00:00:00Z", "* 2026-01-01T00:00:00Z"} {
		if _, err := kv.PutString(t.Context(), agreement.InstallationKey, value); err != nil {
			t.Fatal(err)
		}
		if id, _, err := a.Installation(t.Context()); !errors.Is(err, agreement.ErrInstallation) {
			t.Errorf("%q: %q, %v", value, id, err)
		}
	}
}

// Outsiders read the installation's ID by a request, and get an empty ID if
// there is none.
func TestPeekInstallation(t *testing.T) {
	js := openJetStream(t)
	peek := func() string {
		t.Helper()
		id, err := agreement.PeekInstallation(t.Context(), js, messages.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if id := peek(); id != "" {
		t.Errorf("without a bucket: %q", id)
	}
	a := open(t, js)
	if id := peek(); id != "" {
		t.Errorf("before anybody asked for an ID: %q", id)
	}
	want, _, err := a.Installation(t.Context())
	if id := peek(); err != nil || id != want {
		t.Errorf("%q, want %q: %v", id, want, err)
	}
	kv, err := js.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), agreement.InstallationKey); err != nil {
		t.Fatal(err)
	}
	if id := peek(); id != "" {
		t.Errorf("after it was deleted: %q", id)
	}
	if _, err := kv.PutString(t.Context(), agreement.InstallationKey, "nonsense"); err != nil {
		t.Fatal(err)
	}
	if id, err := agreement.PeekInstallation(t.Context(), js, messages.DefaultPrefix); !errors.Is(err, agreement.ErrInstallation) {
		t.Errorf("nonsense: %q, %v", id, err)
	}
}

// TestAnnounce: the announced floor only rises, except for another installation.
func TestAnnounce(t *testing.T) {
	js := openJetStream(t)
	a := open(t, js)
	a1, a2, b1 := agreement.Announcement{Floor: 10, Installation: "a"}, agreement.Announcement{Floor: 20, Installation: "a"}, agreement.Announcement{Floor: 5, Installation: "b"}
	all := agreement.Announcement{Floor: 30}
	for i, step := range []struct{ write, want agreement.Announcement }{{a2, a2}, {a1, a2}, {b1, b1}, {a1, a1}, {all, all}} {
		err := a.Announce(t.Context(), step.write)
		got, failed := agreement.Decided(t.Context(), js, messages.DefaultPrefix)
		if err = errors.Join(err, failed); err != nil || got != step.want {
			t.Errorf("%d: %+v, %v; want %+v", i, got, err, step.want)
		}
	}
	kv, err := js.KeyValue(t.Context(), agreement.BucketName(messages.DefaultPrefix))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "x a", "0 a", "10 a.b"} {
		if _, err := kv.PutString(t.Context(), agreement.DecidedKey, bad); err != nil {
			t.Fatal(err)
		}
		if got, err := agreement.Decided(t.Context(), js, messages.DefaultPrefix); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	if err := a.Announce(t.Context(), a1); err != nil {
		t.Errorf("an unreadable value is not replaced: %v", err)
	}
}
