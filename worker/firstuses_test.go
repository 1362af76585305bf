package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// oneRule has one template for all tags, but for those of another.
type oneRule struct{ template *tagrules.Template }

func (r oneRule) Lookup(string) tagrules.Rule {
	return tagrules.Rule{Order: tagrules.Trend, Template: r.template}
}
func (oneRule) Revision() uint64 { return 1 }

// memoryStore keeps tags in memory.
type memoryStore struct {
	tags map[string]int64
}

func (s *memoryStore) Known(tag string) bool { return s.tags[tag] > 0 }

func (s *memoryStore) Names(ctx context.Context, see func(string), current func()) error {
	for tag := range s.tags {
		see(tag)
	}
	current()
	<-ctx.Done()
	return ctx.Err()
}

func (s *memoryStore) Reserve(_ context.Context, tag string, n int64) (store.Segment, error) {
	if s.tags[tag] == 0 {
		return store.Segment{}, store.ErrNoTag
	}
	s.tags[tag] += n
	return store.Segment{First: s.tags[tag] - n, End: s.tags[tag]}, nil
}

func (s *memoryStore) ReserveFirst(_ context.Context, tag store.Tag, n int64) (store.Segment, error) {
	s.tags[tag.Name] = 1 + n
	return store.Segment{First: 1, End: 1 + n}, nil
}

// make asks for that many new tags, and returns how many were made.
func makeTags(t *testing.T, f *firstUses, name string, n int) (made int) {
	t.Helper()
	for i := range n {
		tag := fmt.Sprint(name, i)
		_, err := f.reserve(t.Context(), tag, f.rules.Lookup(tag).Template, 10)
		switch {
		case err == nil:
			made++
		case !errors.Is(err, errNoNewTag):
			t.Fatal(err)
		}
	}
	return made
}

func newFirstUsesOf(template tagrules.Template) (*firstUses, *memoryStore) {
	s := &memoryStore{tags: make(map[string]int64)}
	return newFirstUses(oneRule{&template}, s), s
}

// TestNewPerSecond: a second's worth at once, and then that many a second. Tags that exist cost nothing.
func TestNewPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFirstUsesOf(tagrules.Template{Pattern: "*", Step: 10, NewPerSecond: 100})
		f.followed, f.counted = true, true
		if n := makeTags(t, f, "a", 500); n != 100 {
			t.Errorf("%d tags were made at once, want 100", n)
		}
		for round := range 5 {
			time.Sleep(500 * time.Millisecond)
			if n := makeTags(t, f, fmt.Sprint("b", round), 500); n != 50 {
				t.Errorf("%d tags were made in half a second, want 50", n)
			}
			if n := makeTags(t, f, "a", 100); n != 100 {
				t.Errorf("%d of 100 tags that exist got IDs", n)
			}
		}
		time.Sleep(time.Hour)
		if n := makeTags(t, f, "c", 500); n != 100 {
			t.Errorf("%d tags were made after an hour of rest, want 100", n)
		}
	})
}

// TestMaxTags: a loader makes as many as its template allows for, and none before it has
// counted those that exist. Those go on.
func TestMaxTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFirstUsesOf(tagrules.Template{Pattern: "*", Step: 10, MaxTags: 30})
		s.tags["had"] = 1
		if _, err := f.reserve(t.Context(), "new", f.rules.Lookup("new").Template, 10); !errors.Is(err, errUncounted) || len(s.tags) != 1 {
			t.Errorf("a new tag before the tags are counted: %v", err)
		}
		if _, err := f.reserve(t.Context(), "had", f.rules.Lookup("had").Template, 10); err != nil {
			t.Errorf("a tag that exists: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.run(ctx, zap.NewNop())
		time.Sleep(time.Second)
		if n := makeTags(t, f, "a", 100); n != 29 || len(s.tags) != 30 {
			t.Errorf("%d tags were made, there are %d; want 29, 30", n, len(s.tags))
		}
		f.forget() // the template was written again
		if n := makeTags(t, f, "b", 10) + makeTags(t, f, "a", 29); n != 29 {
			t.Errorf("%d of 39 requests were answered, want those for the 29 tags that exist", n)
		}
	})
}

// TestTagsBeingMadeCount: a template has as many tags as it may as soon as they are being made.
func TestTagsBeingMadeCount(t *testing.T) {
	f, _ := newFirstUsesOf(tagrules.Template{Pattern: "*", Step: 10, MaxTags: 2})
	template := f.rules.Lookup("any").Template
	f.setCounted(true)
	c, err := f.admit(template)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.admit(template); err != nil {
		t.Fatal(err)
	}
	if _, err := f.admit(template); !errors.Is(err, errNoNewTag) {
		t.Errorf("a third one was admitted: %v", err)
	}
	f.settle(c, "any", false)
	if _, err := f.admit(template); err != nil {
		t.Error(err)
	}
}

// TestGateOpensAgain: what loaders refuse shuts a template for a while, and no longer; a change of the
// template opens it.
func TestGateOpensAgain(t *testing.T) {
	var now time.Duration
	template := &tagrules.Template{Pattern: "*", Step: 10}
	g := newFirstUseGate(oneRule{template}, func() time.Duration { return now })
	open := func() bool {
		_, err := g.step("t")
		if err != nil && !errors.Is(err, errNoNewTag) {
			t.Fatal(err)
		}
		return err == nil
	}
	for range refusalsBurst - 1 {
		_ = g.refused("t", "full")
		if !open() {
			t.Fatal("it is shut too early")
		}
	}
	for range 10 * refusalsBurst {
		_ = g.refused("t", "full")
	}
	if open() {
		t.Error("it is not shut")
	}
	now += time.Second
	if open() {
		t.Error("so many refusals at once have it shut for longer than a second")
	}
	now += time.Second
	if !open() {
		t.Error("it is still shut")
	}
	for range 10 * refusalsBurst {
		_ = g.refused("t", "full")
	}
	if g.reconsider(); !open() {
		t.Error("a change of the template does not open it")
	}
}
