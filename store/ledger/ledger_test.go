package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/ledger"
	"github.com/idworker/idworker/testing/natstest"
)

// A store that goes back returns what was granted; it is not granted again, one line says so,
// and the store is raised.
func TestStoreThatWentBack(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	core, logs := observer.New(zap.InfoLevel)
	old, restored := table(t, srv, "old"), table(t, srv, "restored")
	create(t, old, "order", 1)
	create(t, restored, "order", 1)
	expect(t, i.loader(old, ledger.Require), "order", 1)
	first := i.loader(old, ledger.Require)
	expect(t, first, "order", 11)

	// One that has seen nothing of the ledger yet, and one that is told from the start.
	s := i.logging(restored, ledger.Require, zap.New(core))
	expect(t, s, "order", 21)
	if have := next(t, restored, "order"); have != 31 {
		t.Errorf("the restored store is at %d, want 31", have)
	}
	create(t, restored, "other", 1)
	expect(t, s, "other", 1)
	for range 3 { // it goes on
		before := next(t, restored, "order")
		expect(t, s, "order", before)
	}
	if n := logs.FilterMessageSnippet("the store went back").Len(); n != 1 {
		t.Errorf("%d lines say that the store went back, want 1: %v", n, logs.All())
	}
	if f := s.Figures(); f.WentBack == 0 || f.Raised == 0 || f.Burnt == 0 {
		t.Errorf("figures %+v, want that it went back, was raised, and that ranges were burnt", f)
	}
}

// Two loaders on two tables that both begin at 1: nothing is granted twice.
func TestTwoTables(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	seen := make(map[int64]bool)
	var loaders []*ledger.Store
	for _, name := range []string{"a", "b"} {
		inner := table(t, srv, name)
		create(t, inner, "order", 1)
		loaders = append(loaders, i.loader(inner, ledger.Require))
	}
	for n := range 100 {
		seg, err := loaders[n%2].Reserve(t.Context(), "order", 10)
		if err != nil {
			t.Fatal(err)
		}
		for id := seg.First; id < seg.End; id++ {
			if seen[id] {
				t.Fatalf("DUPLICATE: %d", id)
			}
			seen[id] = true
		}
	}
}

// While another loader was faster, what was reserved is kept if it lies above, and burnt below.
func TestRace(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	create(t, inner, "order", 1)
	other := i.loader(inner, ledger.Require)
	expect(t, other, "order", 1)
	var between func(store.Segment)
	s := i.loader(hooked{inner, func(seg store.Segment) { between(seg) }}, ledger.Require)
	between = func(store.Segment) {}
	expect(t, s, "order", 11)

	// Somebody else raises the mark, but not beyond: the revision is stale, the range is good.
	between = func(store.Segment) {
		between = func(store.Segment) {}
		if _, err := i.bucket().PutString(t.Context(), "order", `{"high":21}`); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, s, "order", 21)

	// The other loader takes the next range, and is done first.
	between = func(store.Segment) {
		between = func(store.Segment) {}
		expect(t, other, "order", 41)
	}
	expect(t, s, "order", 51)
	if f := s.Figures(); f.Burnt != 1 || f.WentBack != 0 {
		t.Errorf("figures %+v, want one range burnt, and no word of a store that went back", f)
	}
}

// The ledger is filled from the store, with loaders that know no ledger at work, and is
// complete then; later loaders find it so.
func TestFill(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	for _, tag := range []string{"a", "b", "c"} {
		create(t, inner, tag, 1)
		expect(t, inner, tag, 1)
	}
	s := i.loader(inner, ledger.Require)
	expect(t, s, "a", 11) // before it is filled
	if n, err := s.Fill(t.Context()); n != 3 || err != nil {
		t.Fatalf("Fill: %d, %v, want 3 tags", n, err)
	}
	for tag, want := range map[string]string{"a": `{"high":21}`, "b": `{"high":11}`, "c": `{"high":11}`} {
		if have := i.high(tag); have != want {
			t.Errorf("%s: %s, want %s", tag, have, want)
		}
	}
	expect(t, inner, "a", 21) // an old loader
	expect(t, s, "a", 31)
	for range 2 {
		if n, err := i.loader(inner, ledger.Require).Fill(t.Context()); n != 0 || err != nil {
			t.Errorf("Fill of a complete ledger: %d, %v, want nothing to do", n, err)
		}
	}
}

// A ledger that was complete and is gone, or made again, grants nothing, to nobody: neither to
// loaders that run nor to new ones, neither a tag that was known nor a new one.
func TestLostLedger(t *testing.T) {
	for _, mode := range []ledger.Mode{ledger.Require, ledger.BestEffort} {
		t.Run(string(mode), func(t *testing.T) {
			srv := natstest.Start(t)
			i := install(t, srv)
			inner := table(t, srv, "t")
			s := i.loader(inner, mode)
			create(t, inner, "order", 1)
			create(t, inner, "other", 1)
			fill(t, s)
			expect(t, s, "order", 1)
			lost := func(what string) {
				t.Helper()
				for _, s := range []*ledger.Store{s, i.loader(inner, mode)} {
					for _, tag := range []string{"order", "other"} {
						seg, err := s.Reserve(t.Context(), tag, 10)
						var lost *ledger.LostError
						if !errors.As(err, &lost) || !errors.Is(err, ledger.ErrLost) {
							t.Errorf("%s: Reserve of %s: %v, %v, want that the ledger is lost", what, tag, seg, err)
						}
					}
				}
				if err := i.loader(inner, mode).Check(t.Context()); !errors.Is(err, ledger.ErrLost) {
					t.Errorf("%s: Check: %v, want that the ledger is lost", what, err)
				}
				if err := i.loader(inner, mode).CreateTag(t.Context(), store.Tag{Name: "new", Step: 1, Next: 1}); !errors.Is(err, ledger.ErrLost) {
					t.Errorf("%s: CreateTag: %v, want that the ledger is lost", what, err)
				}
			}
			if err := i.js().DeleteKeyValue(t.Context(), ledger.BucketName(i.prefix)); err != nil {
				t.Fatal(err)
			}
			lost("deleted")
			if err := ledger.Create(t.Context(), i.js(), i.prefix, 1); !errors.Is(err, ledger.ErrLost) {
				t.Errorf("Create: %v, want that the ledger is lost", err)
			}
			var older *resource.OlderError
			if err := ledger.Bucket(i.prefix, 1).Ensure(t.Context(), i.js()); !errors.As(err, &older) {
				t.Errorf("Ensure: %v, want OlderError", err)
			}
			natstest.CreateBucket(t, i.js(), ledger.BucketName(i.prefix)) // somebody does
			lost("made again")

			// What somebody decides: all tags are raised, and the mark is removed.
			for _, tag := range []string{"order", "other"} {
				if err := i.loader(inner, mode).Raise(t.Context(), tag, 1001); err != nil {
					t.Fatal(err)
				}
			}
			config, err := i.js().KeyValue(t.Context(), agreement.BucketName(i.prefix))
			if err != nil {
				t.Fatal(err)
			}
			if err := config.Delete(t.Context(), ledger.ConfigKey); err != nil {
				t.Fatal(err)
			}
			fill(t, i.loader(inner, mode))
			first := next(t, inner, "order") // some ranges were burnt
			expect(t, s, "order", first)
			expect(t, i.loader(inner, mode), "other", next(t, inner, "other"))
			if first < 1001 {
				t.Errorf("%d was granted", first)
			}
		})
	}
}

// A key that was deleted by hand is not a new tag.
func TestDeletedEntry(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	create(t, inner, "order", 1)
	s := i.loader(inner, ledger.Require)
	expect(t, s, "order", 1)
	if err := i.bucket().Delete(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	var lost *ledger.LostError
	if _, err := i.loader(inner, ledger.Require).Reserve(t.Context(), "order", 10); !errors.As(err, &lost) || lost.Tag != "order" {
		t.Errorf("Reserve: %v, want that the ledger is lost for the tag", err)
	}
	if err := s.Raise(t.Context(), "order", 500); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "order", 500)
}

// Tags that were removed come back above what they had; a tag that exists is just that.
func TestTagsComeBackAbove(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	s := i.loader(inner, ledger.Require)
	fill(t, s)
	create(t, s, "order", 100)
	if have := i.high("order"); have != `{"high":100}` {
		t.Errorf("the new tag is at %q in the ledger, want its first ID", have)
	}
	expect(t, inner, "order", 100) // by somebody without a ledger
	if err := s.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 1}); !errors.Is(err, store.ErrTagExists) {
		t.Errorf("CreateTag of one that exists: %v, want ErrTagExists", err)
	}
	if err := s.RemoveTag(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	if have := i.high("order"); have != `{"high":110}` {
		t.Errorf("the removed tag is at %q in the ledger, want 110", have)
	}
	// In a table that knows nothing of it.
	other := i.loader(table(t, srv, "other"), ledger.Require)
	var below *store.BelowError
	if err := other.CreateTag(t.Context(), store.Tag{Name: "order", Step: 10, Next: 109}); !errors.As(err, &below) || below.Floor != 110 {
		t.Errorf("CreateTag below: %v, want that it must begin at 110", err)
	}
	create(t, other, "order", 110)
	expect(t, other, "order", 110)
}

// Raise moves both, and of a tag that is not there nothing.
func TestRaise(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	s := i.loader(inner, ledger.Require)
	create(t, s, "order", 1)
	if err := s.Raise(t.Context(), "order", 50); err != nil {
		t.Fatal(err)
	}
	if have := i.high("order"); have != `{"high":50}` || next(t, inner, "order") != 50 {
		t.Errorf("the ledger says %s, the store %d, want 50", have, next(t, inner, "order"))
	}
	if err := s.Raise(t.Context(), "order", 20); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "order", 50)
	if err := s.Raise(t.Context(), "typo", 20); !errors.Is(err, store.ErrNoTag) {
		t.Errorf("Raise of a tag that is not there: %v, want ErrNoTag", err)
	}
	if have := i.high("typo"); have != "" {
		t.Errorf("the ledger has %s for a tag that is not there", have)
	}
}

// A range that was reserved before the tag was raised above it, and not yet granted, is burnt.
func TestRaiseBetween(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	inner := table(t, srv, "t")
	create(t, inner, "order", 1)
	admin := i.loader(inner, ledger.Require)
	var between func()
	s := i.loader(hooked{inner, func(store.Segment) { between() }}, ledger.Require)
	between = func() {
		between = func() {}
		if err := admin.Raise(t.Context(), "order", 1000); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, s, "order", 1000)
}

// With JetStream away nothing is granted; in best effort everything is, with one line and a
// figure. When it is back the ledger goes on.
func TestJetStreamAway(t *testing.T) {
	tables := natstest.Start(t)
	for _, mode := range []ledger.Mode{ledger.Require, ledger.BestEffort} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t)
			i := install(t, srv)
			inner := table(t, tables, "t")
			create(t, inner, "order", 1)
			core, logs := observer.New(zap.InfoLevel)
			s := i.logging(inner, mode, zap.New(core))
			expect(t, s, "order", 1)
			srv.Stop()
			if mode == ledger.Require {
				requireWhileAway(t, s)
				srv.Restart()
				natstest.Eventually(t, "a grant", func() bool {
					_, err := s.Reserve(t.Context(), "order", 10)
					return err == nil
				})
				return
			}
			for n := range int64(20) {
				expect(t, s, "order", 11+10*n)
			}
			if f := s.Figures(); f.Unrecorded < 20 || f.Granted < 21 {
				t.Errorf("figures %+v, want 20 grants without the ledger", f)
			}
			srv.Restart()
			natstest.Eventually(t, "the ledger to go on", func() bool {
				_, err := s.Reserve(t.Context(), "order", 10)
				return err == nil && logs.FilterMessageSnippet("in reach again").Len() == 1
			})
			if n := logs.FilterMessageSnippet("out of reach").Len(); n != 1 {
				t.Errorf("%d lines say that the ledger is out of reach, want 1", n)
			}
			if !strings.Contains(i.high("order"), "high") || i.high("order") <= `{"high":211}` {
				t.Errorf("the ledger says %s, want what was granted meanwhile, too", i.high("order"))
			}
		})
	}
}

func requireWhileAway(t *testing.T, s *ledger.Store) {
	t.Helper()
	for range 2 {
		ctx, cancel := timeout(t, 300*time.Millisecond)
		if seg, err := s.Reserve(ctx, "order", 10); err == nil {
			t.Errorf("%v was granted without the ledger", seg)
		}
		cancel()
	}
}

// A ledger that can forget is refused.
func TestUnsafeBucket(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	i := install(t, srv)
	js := i.js()
	if err := js.DeleteKeyValue(t.Context(), ledger.BucketName(i.prefix)); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: ledger.BucketName(i.prefix), Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	inner := table(t, srv, "t")
	create(t, inner, "order", 1)
	for _, mode := range []ledger.Mode{ledger.Require, ledger.BestEffort} {
		if seg, err := i.loader(inner, mode).Reserve(t.Context(), "order", 10); !errors.Is(err, durability.ErrUnsafe) {
			t.Errorf("%s: Reserve: %v, %v, want that the bucket is not safe", mode, seg, err)
		}
	}
}
