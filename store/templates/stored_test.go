package templates_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = messages.DefaultPrefix

func open(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Ensure(t.Context(), js, agreement.Bucket(prefix, 1)); err != nil {
		t.Fatal(err)
	}
	return js
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, js jetstream.JetStream, want ...templates.Template) {
	t.Helper()
	l, err := templates.Read(t.Context(), js, prefix)
	if err != nil || !slices.Equal(l, want) {
		t.Errorf("%v, %v; want %v", l, err, want)
	}
}

// TestEdit: Read returns created, changed and removed templates correctly, the
// most specific first.
func TestEdit(t *testing.T) {
	t.Parallel()
	js := open(t)
	expect(t, js)
	must(t, templates.Create(t.Context(), js, prefix, templates.Template{Pattern: "chat.>", Step: 10}))
	must(t, templates.Create(t.Context(), js, prefix, templates.Template{Pattern: "chat.*", Step: 20, Order: store.Strict, First: 7, MaxTags: 8, NewPerSecond: 9}))
	rest := templates.Template{Pattern: "chat.>", Step: 10, Order: store.Trend}
	chat := templates.Template{Pattern: "chat.*", Step: 20, Order: store.Strict, First: 7, MaxTags: 8, NewPerSecond: 9}
	expect(t, js, chat, rest)
	must(t, templates.Change(t.Context(), js, prefix, "chat.*", func(t *templates.Template) { t.Pattern, t.Step = "x.*", 30 }))
	chat.Step = 30
	expect(t, js, chat, rest)
	for what, err := range map[error]error{
		templates.ErrTemplateExists: templates.Create(t.Context(), js, prefix, chat),
		templates.ErrOverlap:        templates.Create(t.Context(), js, prefix, templates.Template{Pattern: "*.x", Step: 1}),
		templates.ErrTemplate:       templates.Change(t.Context(), js, prefix, "chat.*", func(t *templates.Template) { t.Step = 0 }),
		store.ErrBadTag:             templates.Change(t.Context(), js, prefix, "chat.*", func(t *templates.Template) { t.Order = "sorted" }),
		templates.ErrNoTemplate:     templates.Remove(t.Context(), js, prefix, "other.*"),
	} {
		if !errors.Is(err, what) {
			t.Errorf("%v, want %v", err, what)
		}
	}
	must(t, templates.Remove(t.Context(), js, prefix, "chat.*"))
	expect(t, js, rest)
}

// TestImport: all templates of a list are added, or none. A stored template
// stays, but its first ID may rise.
func TestImport(t *testing.T) {
	t.Parallel()
	js := open(t)
	chat := templates.Template{Pattern: "chat.*", Step: 10, Order: store.Trend, First: 5}
	day := templates.Template{Pattern: "day.*", Step: 10, Order: store.Strict, First: 7}
	must(t, templates.Create(t.Context(), js, prefix, chat))
	other := templates.Template{Pattern: "chat.*", Step: 99, Order: store.Strict, First: 9}
	overlapping := templates.Template{Pattern: "*.x", Step: 1, Order: store.Trend}
	if _, err := templates.Import(t.Context(), js, prefix, templates.List{other, day, overlapping}); !errors.Is(err, templates.ErrOverlap) {
		t.Error(err)
	}
	expect(t, js, chat)
	for _, added := range []templates.List{{day}, nil} {
		got, err := templates.Import(t.Context(), js, prefix, templates.List{other, day})
		if err != nil || !slices.Equal(got, added) {
			t.Errorf("added %v, %v", got, err)
		}
		chat.First, other.First = 9, 6
		expect(t, js, chat, day)
	}
}

// TestUnreadable: unreadable templates are an error, and are not overwritten. A
// key deleted by hand can be written again, and a missing bucket is an error.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	js := open(t)
	kv, err := js.KeyValue(t.Context(), agreement.BucketName(prefix))
	must(t, err)
	for _, value := range []string{"", "x", `[{"pattern":"a*","step":1}]`, `[{"pattern":"a.*"}]`, `[{"pattern":"a.*","step":1,"removed":true}]`} {
		_, err := kv.PutString(t.Context(), "templates", value)
		must(t, err)
		if _, err := templates.Read(t.Context(), js, prefix); !errors.Is(err, templates.ErrUnreadable) {
			t.Errorf("%s: %v, want ErrUnreadable", value, err)
		}
		if err := templates.Create(t.Context(), js, prefix, templates.Template{Pattern: "b.*", Step: 1}); !errors.Is(err, templates.ErrUnreadable) {
			t.Errorf("%s: create: %v, want ErrUnreadable", value, err)
		}
	}
	must(t, kv.Delete(t.Context(), "templates"))
	expect(t, js)
	must(t, templates.Create(t.Context(), js, prefix, templates.Template{Pattern: "b.*", Step: 1}))
	expect(t, js, templates.Template{Pattern: "b.*", Step: 1, Order: store.Trend})
	must(t, js.DeleteKeyValue(t.Context(), agreement.BucketName(prefix)))
	if l, err := templates.Read(t.Context(), js, prefix); err == nil {
		t.Errorf("without a bucket: %v", l)
	}
}

// TestManyCreateAtOnce: of incompatible templates created concurrently, one
// wins.
func TestManyCreateAtOnce(t *testing.T) {
	t.Parallel()
	js := open(t)
	patterns := []string{"a.*", "*.b", "a.*", "*.b", "c.x.*", "d.x.>", "a.*", "*.b"}
	errs := make([]error, len(patterns))
	var wg sync.WaitGroup
	for i, pattern := range patterns {
		wg.Go(func() {
			errs[i] = templates.Create(t.Context(), js, prefix, templates.Template{Pattern: pattern, Step: 1})
		})
	}
	wg.Wait()
	made := 0
	for i, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, templates.ErrOverlap) && !errors.Is(err, templates.ErrTemplateExists):
			t.Errorf("%s: %v", patterns[i], err)
		}
	}
	l, err := templates.Read(t.Context(), js, prefix)
	if err != nil || made != 3 || len(l) != 3 {
		t.Errorf("%d made, there are %v, %v; want 3", made, l, err)
	}
}
