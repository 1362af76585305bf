package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/store"
)

// templatesOf returns what reads that list of templates.
func templatesOf(list ...templates.Template) func(context.Context) (templates.List, error) {
	return func(context.Context) (templates.List, error) { return list, nil }
}

// memoryStore keeps tags in memory.
type memoryStore struct {
	tags    map[string]int64
	lookups int
}

func (s *memoryStore) Known(tag string) bool { return s.tags[tag] > 1 }

func (s *memoryStore) Names(ctx context.Context, see func(string), current func()) error {
	for tag := range s.tags {
		see(tag)
	}
	current()
	<-ctx.Done()
	return ctx.Err()
}

func (s *memoryStore) Lookup(_ context.Context, tag string) (store.Tag, error) {
	s.lookups++
	if s.tags[tag] == 0 {
		return store.Tag{}, store.ErrNoTag
	}
	return store.Tag{Name: tag, Step: 10, Order: store.Trend}, nil
}

func (s *memoryStore) Reserve(_ context.Context, tag string, n int64) (store.Grant, error) {
	if s.tags[tag] == 0 {
		return store.Grant{}, store.ErrNoTag
	}
	s.tags[tag] += n
	return store.Grant{Segment: store.Segment{First: s.tags[tag] - n, End: s.tags[tag]}, Order: store.Trend}, nil
}

func (s *memoryStore) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Grant, error) {
	s.tags[tag.Name] = 1
	return s.Reserve(ctx, tag.Name, n)
}

func ten(store.Tag) int64 { return 10 }

// request requests n tags, and returns how many got a grant.
func (f *lookups) request(t *testing.T, name string, n int) (granted int) {
	t.Helper()
	for i := range n {
		f.misses.left = missesBurst
		_, _, err := f.reserve(t.Context(), fmt.Sprint(name, i), false, ten)
		switch {
		case err == nil:
			granted++
		case !errors.Is(err, errNoNewTag):
			t.Fatal(err)
		}
	}
	return granted
}

// newLookupsOf has one template for all tags.
func newLookupsOf(template templates.Template) (*lookups, *memoryStore) {
	s := &memoryStore{tags: make(map[string]int64)}
	return newLookups(s, templatesOf(template)), s
}

// changedStore grants with another order than its Lookup returned.
type changedStore struct{ *memoryStore }

func (s changedStore) Reserve(ctx context.Context, tag string, n int64) (store.Grant, error) {
	grant, err := s.memoryStore.Reserve(ctx, tag, n)
	grant.Order = store.Strict
	return grant, err
}

// TestOrderIsThatOfTheGrant: a tag has the order of the entry that its grant was written with,
// whatever was looked up before.
func TestOrderIsThatOfTheGrant(t *testing.T) {
	f := newLookups(changedStore{&memoryStore{tags: map[string]int64{"order": 2, "invoice": 1}}}, noTemplates)
	tag, grant, err := f.reserve(t.Context(), "order", false, ten)
	if err != nil || tag.Order != store.Strict || grant.Len() != 10 {
		t.Errorf("%+v, %+v, %v; want a strict tag", tag, grant, err)
	}
}

// TestNewPerSecond: a second's worth at once, and then that many a second. Tags that exist
// cost nothing.
func TestNewPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newLookupsOf(templates.Template{Pattern: "*", Step: 10, NewPerSecond: 100})
		f.follows, f.counted = true, true
		if n := f.request(t, "a", 500); n != 100 {
			t.Errorf("%d tags were created at once, want 100", n)
		}
		for round := range 5 {
			time.Sleep(500 * time.Millisecond)
			if n := f.request(t, fmt.Sprint("b", round), 500); n != 50 {
				t.Errorf("%d tags were created in half a second, want 50", n)
			}
			if n := f.request(t, "a", 100); n != 100 {
				t.Errorf("%d of 100 tags that exist got IDs", n)
			}
		}
	})
}

// TestMaxTags: a template creates no more tags than it may, nor any before a loader has
// counted those that exist. Those go on.
func TestMaxTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		template := templates.Template{Pattern: "*", Step: 10, MaxTags: 30}
		f, s := newLookupsOf(template)
		s.tags["had"] = 1
		if _, _, err := f.reserve(t.Context(), "new", false, ten); !errors.Is(err, errUncounted) || len(s.tags) != 1 {
			t.Errorf("a new tag before the tags are counted: %v", err)
		}
		if _, _, err := f.reserve(t.Context(), "had", false, ten); err != nil {
			t.Errorf("a tag that exists: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.run(ctx, zap.NewNop())
		time.Sleep(time.Second)
		if n := f.request(t, "a", 100); n != 29 || len(s.tags) != 30 {
			t.Errorf("%d tags were created, there are %d; want 29, 30", n, len(s.tags))
		}
		delete(s.tags, "a0")
		if n := f.request(t, "a", 1); n != 1 {
			t.Error("a tag that was removed does not come back, although it counts")
		}
		template.Step = 20
		f.readTemplates = templatesOf(template) // it was changed
		time.Sleep(templatesAge)
		if n := f.request(t, "b", 10) + f.request(t, "a", 29); n != 29 {
			t.Errorf("%d of 39 requests got a grant, want those for the 29 tags that exist", n)
		}
	})
}

// TestTagsBeingMadeCount: a template has as many tags as it may as soon as they are being
// created.
func TestTagsBeingMadeCount(t *testing.T) {
	template := &templates.Template{Pattern: "*", Step: 10, MaxTags: 2}
	f, _ := newLookupsOf(*template)
	f.setCounted(true)
	c, err := f.admit("new", template, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.admit("new", template, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.admit("new", template, nil); !errors.Is(err, errNoNewTag) {
		t.Errorf("a third one was admitted: %v", err)
	}
	f.settle(c, "any", false)
	if _, err := f.admit("new", template, nil); err != nil {
		t.Error(err)
	}
}

// TestMissesAreBounded: a flood of names that do not exist reaches the store a bounded number
// of times a second. Tags that the loader knows are served, and when the flood has ended, an
// unknown name is looked up again.
func TestMissesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{tags: map[string]int64{"order": 2, "invoice": 1}}
		f := newLookups(s, noTemplates)
		const seconds = 10
		for n := range 100_000 {
			_, _, err := f.reserve(t.Context(), fmt.Sprint("evil", n), false, ten)
			if !errors.Is(err, store.ErrNoTag) && !errors.Is(err, errNoNewTag) {
				t.Fatal(err)
			}
			if n%1000 == 0 {
				_, _, loaderKnows := f.reserve(t.Context(), "order", false, ten)
				_, _, workerKnows := f.reserve(t.Context(), "invoice", true, ten)
				if err := errors.Join(loaderKnows, workerKnows); err != nil {
					t.Fatal(err)
				}
				s.tags["invoice"] = 1 // as if the loader did not
			}
			time.Sleep(seconds * time.Second / 100_000)
		}
		if most := missesBurst + seconds*missesPerSecond + 200 + 2; s.lookups > most {
			t.Errorf("%d lookups in %d s, want at most %d", s.lookups, seconds, most)
		}
		time.Sleep(time.Second)
		if _, _, err := f.reserve(t.Context(), "unknown", false, ten); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("after the flood: %v", err)
		}
	})
}

// TestTemplatesThatCannotBeRead: without them no name is refused for want of a tag; later, the
// list that was read before counts.
func TestTemplatesThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{tags: make(map[string]int64)}
		list, readable := templates.List(nil), errAway
		f := newLookups(s, func(context.Context) (templates.List, error) { return list, readable })
		if _, _, err := f.reserve(t.Context(), "a", false, ten); !errors.Is(err, errNotRead) {
			t.Errorf("before they were read: %v", err)
		}
		time.Sleep(templatesAge)
		list, readable = templates.List{{Pattern: "*", Step: 10}}, nil
		if _, _, err := f.reserve(t.Context(), "a", false, ten); err != nil {
			t.Error(err)
		}
		time.Sleep(templatesAge)
		list, readable = nil, errAway
		if _, _, err := f.reserve(t.Context(), "b", false, ten); err != nil {
			t.Errorf("while they cannot be read: %v", err)
		}
	})
}
