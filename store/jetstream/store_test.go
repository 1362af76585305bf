package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/testing/storetest"
	"github.com/idworker/idworker/testing/tier"
)

func TestMain(m *testing.M) {
	maxLag, maxChase = time.Millisecond, natstest.Patience // so that replicas often lag
	// A server goes on for a while to look for a stream that another one sources.
	natstest.Main(m)
}

// connector is what a single server and a cluster have in common.
type connector interface {
	js(t *testing.T) natsjs.JetStream
}

type single struct{ *natstest.Server }
type cluster struct{ *natstest.Cluster }

func (s single) js(t *testing.T) natsjs.JetStream {
	return natstest.JetStream(t, s.Connect(t))
}

func (c cluster) js(t *testing.T) natsjs.JetStream {
	return natstest.JetStream(t, c.Connect(t))
}

// open returns one more handle with a connection of its own.
func open(t *testing.T, c connector, prefix messages.Prefix) *Store {
	t.Helper()
	s, err := Open(t.Context(), c.js(t), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fresh creates the bucket and opens it.
func fresh(t *testing.T, c connector, prefix messages.Prefix, replicas int) *Store {
	t.Helper()
	if err := Create(t.Context(), c.js(t), prefix, replicas); err != nil {
		t.Fatal(err)
	}
	return open(t, c, prefix)
}

// newTag adds a tag with step 10, from 1 on.
func newTag(t *testing.T, s *Store, name string) {
	t.Helper()
	if err := s.CreateTag(t.Context(), store.Tag{Name: name, Step: 10, Next: 1}); err != nil {
		t.Fatal(err)
	}
}

// contract gives each test of the suite a bucket of its own on one server.
func contract(c connector, replicas int) storetest.Backend {
	n := 0
	return func(t *testing.T) func() store.Store {
		n++
		prefix := messages.Prefix(fmt.Sprintf("ids%d", n))
		fresh(t, c, prefix, replicas)
		return func() store.Store { return open(t, c, prefix) }
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	backend := contract(single{natstest.Start(t)}, 1)
	storetest.Run(t, backend)
	storetest.RunRemembers(t, backend)
}

// Three replicas answer conflicts with another error code, and reads from any of
// them: the contract is the same.
func TestContractReplicated(t *testing.T) {
	tier.All(t)
	t.Parallel()
	backend := contract(cluster{natstest.StartCluster(t, 3)}, 3)
	storetest.Run(t, backend)
	storetest.RunRemembers(t, backend)
}

func TestCorruptEntryIsNeverCountedFrom(t *testing.T) {
	t.Parallel()
	s := fresh(t, single{natstest.Start(t)}, "ids", 1)
	newTag(t, s, "good")
	for _, value := range []string{
		"", " ", "1001", "null", "[]", "{}", `"x"`, "{",
		`{"max_id":1}`, `{"step":1}`, `{"max_id":0,"step":1}`, `{"max_id":-5,"step":1}`, `{"max_id":1,"step":0}`,
		`{"max_id":1.5,"step":1}`, `{"max_id":"1","step":1}`, `{"max_id":9223372036854775808,"step":1}`,
		`{"max_id":1,"step":1}{"max_id":2,"step":1}`, `{"max_id":1,"step":1,"min_id":1}`,
		`{"removed":true}`, `{"max_id":0,"step":1,"removed":true}`, `{"max_id":1,"step":1,"removed":1}`, `{"max_id":1,"step":1,"removed":"no"}`,
	} {
		if _, err := s.kv.PutString(t.Context(), "order", value); err != nil {
			t.Fatal(err)
		}
		named := func(call string, err error) {
			t.Helper()
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "bucket ids_segments, key order") {
				t.Errorf("%s of %q: %v, want ErrCorrupt with bucket and key", call, value, err)
			}
		}
		_, err := s.Reserve(t.Context(), "order", 10)
		named("Reserve", err)
		named("SetStep", s.SetStep(t.Context(), "order", 10))
		named("Raise", s.Raise(t.Context(), "order", 10))
		named("RemoveTag", s.RemoveTag(t.Context(), "order"))
		tags, err := s.Tags(t.Context())
		named("Tags", err)
		if entries, all := store.Unreadable(err); !all || len(entries) != 1 || entries[0].Tag != "order" {
			t.Errorf("Tags: unreadable are %v, all of them: %t, want order", entries, all)
		}
		if len(tags) != 1 || tags[0].Name != "good" {
			t.Errorf("Tags beside %q: %v, want the good one", value, tags)
		}
		if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 1, Next: 1}); !errors.Is(err, store.ErrTagExists) {
			t.Errorf("CreateTag over %q: %v, want ErrTagExists", value, err)
		}
		entry, err := s.kv.Get(t.Context(), "order")
		if err != nil || string(entry.Value()) != value {
			t.Errorf("%q was changed: %v, %v", value, entry, err)
		}
	}
}

func TestDeletedKeyIsNoTag(t *testing.T) {
	t.Parallel()
	s := fresh(t, single{natstest.Start(t)}, "ids", 1)
	for name, remove := range map[string]func(context.Context, string, ...natsjs.KVDeleteOpt) error{
		"deleted": s.kv.Delete, "purged": s.kv.Purge,
	} {
		newTag(t, s, name)
		if err := remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Reserve(t.Context(), name, 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("Reserve of a %s key: %v, want ErrNoTag", name, err)
		}
		if err := s.SetStep(t.Context(), name, 10); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("SetStep of a %s key: %v, want ErrNoTag", name, err)
		}
		if tags, err := s.Tags(t.Context()); err != nil || len(tags) != 0 {
			t.Errorf("Tags after a key was %s: %v, %v", name, tags, err)
		}
		again := store.Tag{Name: name, Step: 10, Next: 1}
		if err := s.CreateTag(t.Context(), again); !errors.Is(err, store.ErrBadTag) {
			t.Errorf("a %s key was created again from 1 on, which repeats IDs: %v, want ErrBadTag", name, err)
		}
		again.Next = 1001
		if err := s.CreateTag(t.Context(), again); err != nil {
			t.Error(err)
		}
		if seg, err := s.Reserve(t.Context(), name, 10); err != nil || seg.First != 1001 {
			t.Errorf("Reserve of a key that was %s and created again: %v, %v", name, seg, err)
		}
		if err := s.kv.Purge(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// A process of before tombstones reads every counter, but no tombstone, and so it hands out
// nothing from one. What somebody deletes by hand, tombstone or not, is forgotten.
func TestTombstone(t *testing.T) {
	t.Parallel()
	s := fresh(t, single{natstest.Start(t)}, "ids", 1)
	newTag(t, s, "order")
	if _, err := s.Reserve(t.Context(), "order", 100); err != nil {
		t.Fatal(err)
	}
	entry, err := s.kv.Get(t.Context(), "order")
	if err != nil || string(entry.Value()) != `{"max_id":101,"step":10}` {
		t.Errorf("the counter is %s, %v", entry.Value(), err)
	}
	if err := s.RemoveTag(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	entry, err = s.kv.Get(t.Context(), "order")
	if err != nil || string(entry.Value()) != `{"max_id":101,"step":10,"removed":true}` {
		t.Errorf("the tombstone is %s, %v", entry.Value(), err)
	}
	old := json.NewDecoder(bytes.NewReader(entry.Value()))
	old.DisallowUnknownFields()
	if err := old.Decode(&struct {
		MaxID int64 `json:"max_id"`
		Step  int64 `json:"step"`
	}{}); err == nil {
		t.Error("a process of before tombstones takes one for a counter")
	}
	if err := s.kv.Delete(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1}); !errors.Is(err, store.ErrBadTag) || errors.Is(err, store.ErrBelow) {
		t.Errorf("CreateTag from 1 on over a deleted tombstone: %v, want ErrBadTag", err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 50}); err != nil {
		t.Errorf("CreateTag over a deleted tombstone: %v", err)
	}
}

func TestMalformedTagIsNoKey(t *testing.T) {
	t.Parallel()
	s := fresh(t, single{natstest.Start(t)}, "ids", 1)
	newTag(t, s, "order")
	for _, name := range []string{"", "*", ">", "order.*", "order.", ".order", "a..b", "a b", "a/b", strings.Repeat("x", 129)} {
		_, reserve := s.Reserve(t.Context(), name, 10)
		for _, err := range []error{
			reserve,
			s.SetStep(t.Context(), name, 10),
			s.Raise(t.Context(), name, 10),
			s.RemoveTag(t.Context(), name),
			s.CreateTag(t.Context(), store.Tag{Name: name, Step: 10, Next: 1}),
		} {
			if !errors.Is(err, store.ErrBadTag) || !errors.Is(err, messages.ErrTag) {
				t.Errorf("tag %q: %v, want ErrBadTag", name, err)
			}
		}
	}
}

// lagging is a bucket whose reads come from a replica that lags behind.
type lagging struct {
	natsjs.KeyValue
	old natsjs.KeyValueEntry
}

func (l lagging) Get(context.Context, string) (natsjs.KeyValueEntry, error) { return l.old, nil }

// A tag that was removed and created again can be used the moment CreateTag returns: a replica
// that still has the tombstone is not believed.
func TestOldTombstoneIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := fresh(t, single{natstest.Start(t)}, "ids", 1)
	newTag(t, s, "order")
	if err := s.RemoveTag(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	tombstone, err := s.kv.Get(t.Context(), "order")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 100}); err != nil {
		t.Fatal(err)
	}
	s.kv = lagging{s.kv, tombstone}
	if seg, err := s.Reserve(t.Context(), "order", 10); err != nil || seg != (store.Segment{First: 100, End: 110}) {
		t.Errorf("Reserve: %v, %v, want [100, 110)", seg, err)
	}
	if err := errors.Join(s.Raise(t.Context(), "order", 500), s.SetStep(t.Context(), "order", 20), s.RemoveTag(t.Context(), "order")); err != nil {
		t.Error(err)
	}
	if _, err := s.Reserve(t.Context(), "order", 10); !errors.Is(err, store.ErrNoTag) {
		t.Errorf("Reserve of a tag that was removed again: %v, want ErrNoTag", err)
	}
}

// Every tag is listed while all of them are being rewritten, see complete.
func TestTagsMissesNoneUnderLoad(t *testing.T) {
	t.Parallel()
	const n = 500
	c := single{natstest.Start(t)}
	s := fresh(t, c, "ids", 1)
	for i := range n {
		newTag(t, s, fmt.Sprintf("tag%d", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 4 {
		writer := open(t, c, "ids")
		wg.Go(func() {
			for i := w; ctx.Err() == nil; i += 7 {
				_, _ = writer.Reserve(ctx, fmt.Sprintf("tag%d", i%n), 1)
			}
		})
	}
	for range 10 {
		tags, err := s.Tags(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(tags) != n {
			t.Errorf("%d tags listed, want %d", len(tags), n)
		}
	}
	cancel()
	wg.Wait()
}

// A list that breaks off is an error, never a shorter list; and nothing is left
// running (TestMain looks).
func TestTagsThatBreaksOffIsAnError(t *testing.T) {
	t.Parallel()
	const n = 600 // more than the watcher's buffer holds
	c := single{natstest.Start(t)}
	s := fresh(t, c, "ids", 1)
	for i := range n {
		newTag(t, s, fmt.Sprintf("tag%d", i))
	}
	start := time.Now()
	if _, err := s.Tags(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(start)
	check := func(tags []store.Tag, err error) {
		t.Helper()
		if err == nil && len(tags) != n {
			t.Errorf("%d of %d tags and no error", len(tags), n)
		}
	}
	for i := range time.Duration(10) {
		ctx, cancel := context.WithTimeout(t.Context(), whole*i/10)
		check(s.Tags(ctx))
		cancel()
	}
	for i := range time.Duration(10) {
		closing := open(t, c, "ids")
		timer := time.AfterFunc(whole*i/10, closing.js.Conn().Close)
		check(closing.Tags(t.Context()))
		timer.Stop()
	}
}
