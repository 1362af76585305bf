package loader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"golang.org/x/time/rate"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
)

var ten = []store.Want{{Step: 10, Waiting: 10, Most: 10}}

// request requests n tags, and returns how many got a grant.
func (l *lookup) request(t *testing.T, name string, n int) (granted int) {
	t.Helper()
	for i := range n {
		l.misses = rate.NewLimiter(missesPerSecond, missesBurst)
		_, err := l.reserve(t.Context(), fmt.Sprint(name, i), ten)
		switch {
		case err == nil:
			granted++
		case !errors.Is(err, errNoNewTag):
			t.Fatal(err)
		}
	}
	return granted
}

// newTestLookup has a store without tags, and these templates.
func newTestLookup(all ...templates.Template) (*lookup, *fakeStore, *fakeTemplates) {
	s, list := newFakeStore(), &fakeTemplates{list: all}
	s.missing, s.delay = "abceino", 0
	return newLookup(s, list), s, list
}

// TestNewPerSecond: a second's worth at once, and then that many a second.
// Existing tags cost nothing.
func TestNewPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := newTestLookup(templates.Template{Pattern: "*", Step: 10, NewPerSecond: 100})
		if n := l.request(t, "a", 500); n != 100 {
			t.Errorf("%d tags were created at once, want 100", n)
		}
		for round := range 5 {
			time.Sleep(500 * time.Millisecond)
			if n := l.request(t, fmt.Sprint("b", round), 500); n != 50 {
				t.Errorf("%d tags were created in half a second, want 50", n)
			}
			if n := l.request(t, "a", 100); n != 100 {
				t.Errorf("%d of 100 tags that exist got IDs", n)
			}
		}
	})
}

// TestMaxTags: a template creates no more tags than allowed, nor any before the
// existing ones are counted. Those are served.
func TestMaxTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, list := newTestLookup(templates.Template{Pattern: "*", Step: 10, MaxTags: 30})
		s.next["had"], s.uncounted = 1, errAway
		if _, err := l.reserve(t.Context(), "new", ten); !errors.Is(err, errNotRead) || len(s.next) != 1 {
			t.Errorf("a new tag before the tags are counted: %v", err)
		}
		if _, err := l.reserve(t.Context(), "had", ten); err != nil {
			t.Errorf("a tag that exists: %v", err)
		}
		s.uncounted = nil
		time.Sleep(countAge)
		if n := l.request(t, "a", 100); n != 29 || len(s.next) != 30 {
			t.Errorf("%d tags were created, there are %d; want 29, 30", n, len(s.next))
		}
		delete(s.next, "a0")
		s.removed["a0"] = true
		if n := l.request(t, "a", 1); n != 1 {
			t.Error("a tag that was removed does not come back, although it counts")
		}
		delete(s.removed, "a0")
		// The template changed.
		list.list = templates.List{{Pattern: "*", Step: 20, MaxTags: 30}}
		time.Sleep(templatesAge)
		if n := l.request(t, "b", 10) + l.request(t, "a", 29); n != 29 {
			t.Errorf("%d of 39 requests got a grant, want those for the 29 tags that exist", n)
		}
	})
}

// TestMaxTagsOfNestedTemplates: a tag counts for the most specific template
// alone.
func TestMaxTagsOfNestedTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, _ := newTestLookup(
			templates.Template{Pattern: "a.b.*", Step: 10, MaxTags: 40}, templates.Template{Pattern: "a.*.*", Step: 10, MaxTags: 3},
			templates.Template{Pattern: "a.*", Step: 10, MaxTags: 20}, templates.Template{Pattern: "a.>", Step: 10, MaxTags: 5},
		)
		for n := range 10 {
			for _, tag := range []string{"a.b.%d", "a.%d", "o.%d"} {
				s.next[fmt.Sprintf(tag, n)] = 1
			}
		}
		s.next["a.c.had"], s.next["a.c.c.had"] = 1, 1
		for _, round := range []string{"", "0"} { // 0: none is left
			for names, want := range map[string]int{"a.b.more": 30, "a.c.more": 2, "a.more": 10, "a.c.c.more": 4} {
				if n := l.request(t, names+round, 50); n != want && round == "" || n != 0 && round != "" {
					t.Errorf("%d tags %s… were created, want %d", n, names+round, want)
				}
			}
			time.Sleep(countAge)
		}
	})
}

// TestCountsAreBounded: however many names callers invent, a template's tags are
// counted once a second, whether the template is full or they cannot be counted.
func TestCountsAreBounded(t *testing.T) {
	for what, uncounted := range map[string]error{"full": nil, "cannot be counted": errAway} {
		synctest.Test(t, func(t *testing.T) {
			l, s, _ := newTestLookup(templates.Template{Pattern: "*", Step: 10, MaxTags: 1})
			s.next["had"], s.uncounted = 1, uncounted
			const seconds = 10
			for n := range 1_000 {
				if _, err := l.reserve(t.Context(), fmt.Sprint("evil", n), ten); !errors.Is(err, errNoNewTag) && !errors.Is(err, errNotRead) {
					t.Fatal(err)
				}
				time.Sleep(seconds * time.Second / 1_000)
			}
			if s.counted > seconds || s.counted < seconds/2 {
				t.Errorf("%s: counted %d times in %d s", what, s.counted, seconds)
			}
		})
	}
}

// TestTagsBeingMadeCount: tags count as soon as they are being created, also if
// the server does not count them yet. One that could not be created counts until
// the next count.
func TestTagsBeingMadeCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, list := newTestLookup(templates.Template{Pattern: "*", Step: 10, MaxTags: 2})
		admit := func(name string, want error) (made func()) {
			t.Helper()
			made, err := l.limits.admit(t.Context(), name, &list.list[0], list.list)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			return made
		}
		a, b := admit("a", nil), admit("b", nil)
		admit("c", errNoNewTag)
		a() // not created
		s.next["b"] = 1
		b()
		admit("c", errNoNewTag)
		time.Sleep(countAge)
		admit("c", nil)
		admit("d", errNoNewTag)
		time.Sleep(countAge)
		admit("d", errNoNewTag)
	})
}

// TestRefusedPrefetchesAreMisses: a prefetch of a name that a template would make
// strict creates no tag. It counts as a miss, so that names cannot be made up
// without a limit.
func TestRefusedPrefetchesAreMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, _ := newTestLookup(templates.Template{Pattern: "*", Step: 10, Order: store.Strict})
		s.refusal = store.ErrStrict
		for n := range 5 * missesBurst {
			if _, err := l.reserve(t.Context(), fmt.Sprint("evil", n), ten); !errors.Is(err, store.ErrStrict) && !errors.Is(err, errTooManyMisses) {
				t.Fatal(err)
			}
		}
		if s.lookups > missesBurst {
			t.Errorf("%d lookups at once, want at most %d", s.lookups, missesBurst)
		}
	})
}

// TestMissesAreBounded: a flood of names that do not exist reaches the store a
// bounded number of times a second. Known tags are served, and after the flood,
// an unknown name is looked up again.
func TestMissesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, list := newTestLookup(templates.Template{Pattern: "none"})
		s.next["order"] = 1
		l := newFakeWorker(Config{Store: s, Prefix: "ids", MaxStep: 10, Timeout: DefaultTimeout, Log: zap.NewNop()}, list).l
		reserve := func(tag string, unknown bool) error {
			event := load(tag, 1, 0)
			event.Unknown = unknown
			_, err := l.load(t.Context(), tag, []job{{event: event}})
			return err
		}
		const seconds = 10
		for n := range 100_000 {
			err := reserve(fmt.Sprint("evil", n), true)
			if !errors.Is(err, store.ErrNoTag) && !errors.Is(err, errNoNewTag) {
				t.Fatal(err)
			}
			if n%1000 == 0 {
				loaderKnows, workerKnows := reserve("order", true), reserve("unread", false)
				if err := errors.Join(loaderKnows, workerKnows); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(seconds * time.Second / 100_000)
		}
		if most := missesBurst + seconds*missesPerSecond + 200 + 2; s.lookups > most {
			t.Errorf("%d lookups in %d s, want at most %d", s.lookups, seconds, most)
		}
		time.Sleep(time.Second)
		if err := reserve("evil", true); !errors.Is(err, store.ErrNoTag) {
			t.Errorf("after the flood: %v", err)
		}
	})
}

// TestTemplatesThatCannotBeRead: without templates, no name is refused as
// missing; later, the previous list counts.
func TestTemplatesThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, list := newTestLookup(templates.Template{})
		list.err = errAway
		if _, err := l.reserve(t.Context(), "a", ten); !errors.Is(err, errNotRead) {
			t.Errorf("before they were read: %v", err)
		}
		time.Sleep(templatesAge)
		list.list, list.err = templates.List{{Pattern: "*", Step: 10}}, nil
		if _, err := l.reserve(t.Context(), "a", ten); err != nil {
			t.Error(err)
		}
		time.Sleep(templatesAge)
		list.list, list.err = nil, errAway
		if _, err := l.reserve(t.Context(), "b", ten); err != nil {
			t.Errorf("while they cannot be read: %v", err)
		}
	})
}

// TestTemplatesThatHang: a request waits no longer than its call may take.
func TestTemplatesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeTemplates{err: errHangs}
		list := newTemplateList(source)
		first, cancelFirst := context.WithTimeout(t.Context(), time.Minute)
		defer cancelFirst()
		go func() { _, _ = list.get(first) }()
		synctest.Wait()
		second, cancelSecond := context.WithTimeout(t.Context(), time.Second)
		defer cancelSecond()
		began := time.Now()
		if _, err := list.get(second); !errors.Is(err, errNotRead) || time.Since(began) > time.Second || source.reads != 1 {
			t.Errorf("%v after %v and %d reads", err, time.Since(began), source.reads)
		}
		time.Sleep(DefaultTimeout) // the read times out
	})
}

// makes records the latest tag that was created.
type makes struct {
	*fakeStore
	made store.Tag
}

func (m *makes) ReserveFirst(ctx context.Context, tag store.Tag, wants []store.Want) (store.Reservation, error) {
	m.made = tag
	return m.fakeStore.ReserveFirst(ctx, tag, wants)
}

// TestDatedTags: template and name decide since when a tag may have been used,
// whether the loader's clock is before or after the date.
func TestDatedTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01
		s := &makes{fakeStore: newFakeStore()}
		s.missing, s.delay = "di", 0
		l := newLookup(s, &fakeTemplates{list: templates.List{
			{Pattern: "day.*", Step: 10, Dates: templates.Dates{Dated: "yyyyMMdd", Ahead: 86400}},
			{Pattern: "id.*", Step: 10},
		}})
		for range 3 {
			for tag, want := range map[string]time.Time{
				"day.20000103": time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC),
				"day.20261121": time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
				"day.x":        {}, // never a date
				"id.20261121":  {}, // another template
			} {
				_, err := l.reserve(t.Context(), tag, ten)
				if err != nil || s.made.Name != tag || !s.made.Earliest.Equal(want) {
					t.Errorf("%v: made %+v, %v, want that it was unused until %v", time.Now(), s.made, err, want)
				}
				delete(s.next, tag) // to be created again
			}
			time.Sleep(36 * time.Hour)
		}
	})
}

// TestDatedTagsAfterADecision: after a decision, a loader whose clock is a day
// behind begins the tags of today and tomorrow above the IDs of lost tags, and
// later ones at the template's first ID.
func TestDatedTagsAfterADecision(t *testing.T) {
	t.Parallel()
	const prefix = messages.DefaultPrefix
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	decided := time.Now().Add(24 * time.Hour).UTC()
	if err := register.Create(t.Context(), js, prefix, 1); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "KV_"+register.BucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Metadata["idworker_first"] = "5001"
	config.Metadata["idworker_decisions"] = "x"
	config.Metadata["idworker_decided"] = "x " + decided.Format(time.RFC3339Nano)
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	s, err := register.Open(t.Context(), register.Config{JetStream: js, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	l := newLookup(s, &fakeTemplates{list: templates.List{
		{Pattern: "day.*", Step: 10, First: 3, Order: store.Strict, Dates: templates.Dates{Dated: "yyyyMMdd", Ahead: 86400}},
		{Pattern: "plain.*", Step: 10},
	}})
	for days, want := range map[int]int64{-365: 5001, -1: 5001, 0: 5001, 1: 5001, 2: 3, 3: 3, 365: 3} {
		date := decided.AddDate(0, 0, days).Format("20060102")
		for tag, want := range map[string]int64{"day." + date: want, "plain." + date: 5001} {
			if granted, err := l.reserve(t.Context(), tag, ten); err != nil || granted.Parts[0].First != want {
				t.Errorf("%s, decided at %v: %v, %v, want IDs from %d on", tag, decided, granted, err, want)
			}
		}
	}
}
