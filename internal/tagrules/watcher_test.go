package tagrules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = messages.DefaultPrefix

// rules is an installation's.
type rules struct {
	*testing.T
	js     jetstream.JetStream
	editor *tagrules.Editor
}

func newRules(t *testing.T) rules {
	t.Helper()
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	r := rules{T: t, js: js}
	r.make()
	if r.editor, err = tagrules.OpenEditor(t.Context(), js, prefix); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r rules) make() {
	r.Helper()
	if err := resource.Ensure(r.Context(), r.js, agreement.Bucket(prefix, 1)); err != nil {
		r.Fatal(err)
	}
}

// watch starts a watcher that runs until the test ends.
func (r rules) watch(changed func(string)) *tagrules.Watcher {
	r.Helper()
	w := tagrules.NewWatcher(r.js, prefix, zap.NewNop())
	w.Changed = changed
	if err := w.Start(r.Context()); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	r.Cleanup(func() { cancel(); running.Wait() })
	return w
}

func (r rules) create(pattern string, order tagrules.Order) uint64 {
	r.Helper()
	revision, err := r.editor.CreateTemplate(r.Context(), tagrules.Template{Pattern: pattern, Step: 10, Order: order})
	if err != nil {
		r.Fatal(err)
	}
	return revision
}

func (r rules) setOrder(tag string, order tagrules.Order) uint64 {
	r.Helper()
	revision, err := r.editor.SetOrder(r.Context(), tag, order)
	if err != nil {
		r.Fatal(err)
	}
	return revision
}

// await waits until the watcher has read up to a revision.
func (r rules) await(w *tagrules.Watcher, revision uint64) {
	r.Helper()
	natstest.Eventually(r, fmt.Sprint("revision ", revision), func() bool { return w.Revision() >= revision })
}

func (r rules) expect(w *tagrules.Rules, tag string, order tagrules.Order, pattern string) {
	r.Helper()
	rule := w.Lookup(tag)
	got := ""
	if rule.Template != nil {
		got = rule.Template.Pattern
	}
	if rule.Order != order || got != pattern {
		r.Errorf("%s: order %s, template %q; want %s, %q", tag, rule.Order, got, order, pattern)
	}
}

// TestLookup follows what is written: before the start and after it, by the tag's name and by template.
func TestLookup(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	r.setOrder("own", tagrules.Strict)
	r.create("chat.*", tagrules.Strict)
	r.setOrder("chat.slow", tagrules.Trend)
	w := r.watch(nil)
	r.expect(w.Rules, "own", tagrules.Strict, "")
	r.expect(w.Rules, "other", tagrules.Trend, "")
	r.expect(w.Rules, "chat.1", tagrules.Strict, "chat.*")
	r.expect(w.Rules, "chat.slow", tagrules.Trend, "chat.*")
	r.await(w, r.create("chat.>", tagrules.Trend))
	r.expect(w.Rules, "chat.1", tagrules.Strict, "chat.*")
	r.expect(w.Rules, "chat.1.2", tagrules.Trend, "chat.>")
	revision, err := r.editor.RemoveTemplate(t.Context(), "chat.*")
	if err != nil {
		t.Fatal(err)
	}
	r.await(w, revision)
	r.expect(w.Rules, "chat.1", tagrules.Trend, "chat.>")
	if revision, err = r.editor.RemoveTemplate(t.Context(), "chat.>"); err != nil {
		t.Fatal(err)
	}
	r.await(w, revision)
	r.expect(w.Rules, "chat.1", tagrules.Trend, "")
	if !w.FromTemplate("chat.1") || w.FromTemplate("chat") {
		t.Error("it is not known what came of a template that was removed")
	}
	if err := r.editor.DropOrder(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	r.await(w, r.setOrder("last", tagrules.Strict))
	r.expect(w.Rules, "own", tagrules.Trend, "")
}

// TestRevisionMovesLast: Changed is called when Lookup has the change, and before Revision says so.
func TestRevisionMovesLast(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	var w *tagrules.Watcher
	seen := make(chan string, 8)
	ready := make(chan struct{})
	w = r.watch(func(tag string) {
		<-ready
		seen <- fmt.Sprint(tag, " ", w.Lookup("t").Order, " ", w.Revision())
	})
	close(ready)
	before := w.Revision()
	r.await(w, r.setOrder("t", tagrules.Strict))
	if got, want := <-seen, fmt.Sprint("t strict ", before); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	before = w.Revision()
	r.await(w, r.create("chat.*", tagrules.Trend))
	if got, want := <-seen, fmt.Sprint(" strict ", before); got != want {
		t.Errorf("of a template: %s, want %s", got, want)
	}
}

// TestMissingEntriesSayNothing: rules that are gone when they are read again are still those of a process
// that has read them.
func TestMissingEntriesSayNothing(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	r.create("chat.*", tagrules.Strict)
	r.setOrder("own", tagrules.Strict)
	w := r.watch(nil)
	if err := r.js.DeleteKeyValue(t.Context(), agreement.BucketName(prefix)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the bucket can be made again", func() bool { // once the files of the old one are removed
		return resource.Ensure(t.Context(), r.js, agreement.Bucket(prefix, 1)) == nil
	})
	again, err := tagrules.OpenEditor(t.Context(), r.js, prefix)
	if err != nil {
		t.Fatal(err)
	}
	r.editor = again
	r.setOrder("later", tagrules.Strict)
	natstest.Eventually(t, "the bucket is watched again", func() bool { return w.Lookup("later").Order == tagrules.Strict })
	r.expect(w.Rules, "own", tagrules.Strict, "")
	r.expect(w.Rules, "chat.1", tagrules.Strict, "chat.*")
}

// TestUnreadableRulesAreLeftOut: what was known before stays, and nothing is written over them.
func TestUnreadableRulesAreLeftOut(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	r.create("chat.*", tagrules.Strict)
	r.setOrder("own", tagrules.Strict)
	w := r.watch(nil)
	kv, err := r.js.KeyValue(t.Context(), agreement.BucketName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"templates": `[{"pattern":"a*","step":1}]`, "order.own": "sorted"} {
		revision, err := kv.PutString(t.Context(), key, value)
		if err != nil {
			t.Fatal(err)
		}
		r.await(w, revision)
	}
	r.expect(w.Rules, "own", tagrules.Strict, "")
	r.expect(w.Rules, "chat.1", tagrules.Strict, "chat.*")
	if _, err := r.editor.RemoveTemplate(t.Context(), "chat.*"); !errors.Is(err, tagrules.ErrUnreadable) {
		t.Errorf("%v, want ErrUnreadable", err)
	}
}

// TestManyCreateAtOnce: of templates that do not go with each other, one is made, whoever makes them.
func TestManyCreateAtOnce(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	patterns := []string{"a.*", "*.b", "a.*", "*.b", "c.x.*", "d.x.>", "a.*", "*.b"}
	errs := make([]error, len(patterns))
	var wg sync.WaitGroup
	for i, pattern := range patterns {
		wg.Go(func() {
			_, errs[i] = r.editor.CreateTemplate(t.Context(), tagrules.Template{Pattern: pattern, Step: 1, Order: tagrules.Trend})
		})
	}
	wg.Wait()
	made := 0
	for i, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, tagrules.ErrOverlap) && !errors.Is(err, tagrules.ErrTemplateExists):
			t.Errorf("%s: %v", patterns[i], err)
		}
	}
	all, err := r.editor.Read(t.Context())
	if err != nil || made != 3 || len(all.Templates()) != 3 {
		t.Errorf("%d made, there are %v, %v; want 3", made, all.Templates(), err)
	}
}

// TestDropUnused: the rule of a tag that was not created is dropped, unless somebody else has confirmed it meanwhile, who
// has created the tag.
func TestDropUnused(t *testing.T) {
	t.Parallel()
	r := newRules(t)
	own := func() tagrules.Order {
		rules, err := r.editor.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		order, _ := rules.Own("order")
		return order
	}
	for name, test := range map[string]struct {
		unused func() (bool, error)
		want   tagrules.Order
	}{
		"unused": {func() (bool, error) { return true, nil }, ""},
		"used":   {func() (bool, error) { return false, nil }, tagrules.Strict},
		"confirmed": {func() (bool, error) {
			_, done, err := r.editor.Confirm(t.Context(), "order", math.MaxUint64)
			return done, err
		}, tagrules.Strict},
	} {
		r.setOrder("order", tagrules.Strict)
		if err := r.editor.DropUnused(t.Context(), "order", test.unused); err != nil || own() != test.want {
			t.Errorf("%s: %v, the order is %q, want %q", name, err, own(), test.want)
		}
	}
}
