package tags_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/testing/natstest"
	"github.com/idworker/idworker/worker"
)

const prefix = messages.DefaultPrefix

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// raise raises all tags, and opens them again, as the next command does.
func (i *installation) raise(by int64) {
	i.Helper()
	must(i.T, tags.RaiseAll(i.Context(), i.js, prefix, i.source, by, func(tags.Raised) {}))
	all, err := tags.Open(i.Context(), i.js, prefix, i.source)
	must(i.T, err)
	i.Cleanup(all.Close)
	all.Patient(func() {})
	i.tags = all
}

// installation is one that counts in JetStream, without workers.
type installation struct {
	*testing.T
	js     jetstream.JetStream
	source backend.Backend
	tags   *tags.Tags
}

func newInstallation(t *testing.T) installation {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	must(t, err)
	must(t, worker.Provision(t.Context(), js, prefix, 1))
	must(t, register.Create(t.Context(), js, prefix, 1))
	must(t, resource.Ensure(t.Context(), js, ownership.Bucket(prefix, 1)))
	all, err := tags.Open(t.Context(), js, prefix, source)
	must(t, err)
	t.Cleanup(all.Close)
	all.Patient(func() {})
	return installation{t, js, source, all}
}

func (i installation) export() string {
	i.Helper()
	all, err := i.tags.Export(i.Context())
	must(i.T, err)
	var text bytes.Buffer
	must(i.T, tags.Write(&text, all))
	return text.String()
}

func (i installation) importText(text string) error {
	i.Helper()
	all, err := tags.Read(strings.NewReader(text))
	must(i.T, err)
	return i.tags.Import(i.Context(), all, func(tags.Raised) {})
}

// impatient is the same installation for a command that does not wait.
func (i installation) impatient() installation {
	i.tags = i.tags.Impatient(false)
	return i
}

const exported = `chat.* 10 strict 1000 50 7001
day.> 20 trend 0 0 1
gone.* 30 strict 5 0 1 removed
chat.1 10 11
chat.2 10 21 trend
chat.hot 500 21 trend named
gone.1 30 31
gone.hot 40 31 named
order 1000 5 strict
plain 1000 6
old removed 77
`

// TestExportedAgain: an import makes the installation what the exported one was, with orders and
// templates, whichever was there first; and once more it changes nothing.
func TestExportedAgain(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	for range 2 {
		must(t, i.importText(exported))
		if got := i.export(); got != exported {
			t.Errorf("exported again:\n%s", got)
		}
	}
	listing, err := i.tags.ListAll(t.Context(), "")
	must(t, err)
	if listing.Made["chat.*"] != 2 || len(listing.Tags) != 4 { // order, plain and both that are hot
		t.Errorf("of templates came %v, by name %v", listing.Made, listing.Tags)
	}
	// What an older version exported has neither.
	must(t, i.importText("order 1000 9\nchat.1 10 5\n"))
	if got, want := i.export(), strings.Replace(exported, "order 1000 5", "order 1000 9", 1); got != want {
		t.Errorf("after the import of an old list:\n%s", got)
	}
}

// TestImportedUpward: no tag and no template becomes less strict by an import, and no template changes but for its first ID.
func TestImportedUpward(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 strict 1000 50 1\norder 10 50 strict\nother 10 50\n"))
	must(t, i.importText("chat.* 20 trend 1 1 9\norder 10 40 trend\nother 10 60 strict\n"))
	if got, want := i.export(), "chat.* 10 strict 1000 50 9\norder 10 50 strict\nother 10 60 strict\n"; got != want {
		t.Errorf("it is now\n%s", got)
	}
}

// TestImportTagsFirst: as long as not all tags are there, no template makes one that begins with 1.
func TestImportTagsFirst(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	all, err := tags.Read(strings.NewReader(exported))
	must(t, err)
	must(t, i.tags.Import(t.Context(), all, func(r tags.Raised) {
		rules, err := i.tags.Orders.Rules(t.Context())
		must(t, err)
		if made := rules.Templates(); !r.Template && len(made) > 0 {
			t.Errorf("tag %s is imported, and these templates are in force: %v", r.Tag, made)
		}
	}))
}

// TestImportRefused: what cannot become strict is refused before anything changes.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.tags.Create(t.Context(), store.Tag{Name: "shop.1", Step: 10, Next: 1}))
	must(t, i.importText("chat.> 10 trend 0 0 1\n"))
	before := i.export()
	for text, want := range map[string]error{
		"chat.* 10 strict 0 0 1\nnew 10 1\n": tags.ErrTrendTags, // an ordinary template answers for its tags
		"shop.* 10 trend 0 0 1\nnew 10 1\n":  tags.ErrTagsExist,
	} {
		if err := i.importText(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
		if got := i.export(); got != before {
			t.Errorf("%q: refused, and yet it is now\n%s", text, got)
		}
	}
}

// TestReadTransfer: lines that are wrong are named.
func TestReadTransfer(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"order 10 1 sideways", "order 10 1 strict 5", "order removed 1 strict", "order removed 1 named", "order 10 named", "order 10 1 named named", "chat.* 10 1", "chat.* 10 sideways 0 0 1",
		"chat.* 0 trend 0 0 1", "chat.* 10 trend -1 0 1", "chat.* 10 trend 0 0", "chat.* 10 trend 0 0 -1", "chat.* 10 trend 0 0 1 gone", "cha*t 10 trend 0 0 1", "chat.* 10 trend 0 0 x",
	} {
		if _, err := tags.Read(strings.NewReader("ok 10 1\n" + line + "\n")); !errors.Is(err, tags.ErrFormat) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// slowProcess has a lease, and acts upon rules when it is told to: on those up to a revision.
type slowProcess struct{ acted atomic.Uint64 }

func (i installation) join() *slowProcess {
	i.Helper()
	p := new(slowProcess)
	i.joinAs(func() uint64 { return min(p.acted.Load(), i.latestRule()) })
	return p
}

// joinAs has a process take part that says up to which revision it has acted.
func (i installation) joinAs(acted func() uint64) {
	i.Helper()
	o, err := ownership.Open(i.Context(), ownership.Config{
		JS: i.js, Prefix: prefix, Instance: "SLOW", LeaseTime: time.Second, Rules: acted, Log: zap.NewNop(),
	})
	must(i.T, err)
	must(i.T, o.Start(i.Context()))
	i.Cleanup(func() { _ = o.Stop(context.WithoutCancel(i.Context())) })
}

// latestRule is the latest revision of the rules, 0 if they cannot be read now.
func (i installation) latestRule() uint64 {
	s, err := i.js.Stream(context.WithoutCancel(i.Context()), resource.BucketStream(agreement.BucketName(prefix)))
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.LastSeq
}

// TestAwaited: whatever makes something strict waits for each process that has a lease.
func TestAwaited(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("order 10 1\nday.* 10 trend 0 0 1\n"))
	i.join()
	all, ctx := i.impatient().tags, t.Context()
	for name, makeStrict := range map[string]func() error{
		"tag create": func() error {
			return all.CreateStrict(ctx, store.Tag{Name: "new", Step: 10, Next: 1})
		},
		"tag set": func() error { return all.SetOrder(ctx, "order", tagrules.Strict) },
		"tag create --template": func() error {
			return all.CreateTemplate(ctx, tagrules.Template{Pattern: "chat.*", Step: 10, Order: tagrules.Strict}, 10)
		},
		"tag set of a template": func() error {
			return all.ChangeTemplate(ctx, "day.*", func(t *tagrules.Template) { t.Order = tagrules.Strict }, 10)
		},
		"tag import": func() error {
			return all.Import(ctx, tags.Transfer{
				Tags: []store.Tag{{Name: "brought", Step: 10, Next: 1}}, Orders: map[string]tagrules.Order{"brought": tagrules.Strict},
			}, func(tags.Raised) { t.Error("tag import went on") })
		},
		"tag import of a template": func() error {
			return all.Import(ctx, tags.Transfer{Templates: []tagrules.Template{{Pattern: "room.*", Step: 10, Order: tagrules.Strict}}},
				func(tags.Raised) { t.Error("tag import of a template went on") })
		},
	} {
		var behind *tags.NotActedError
		if err := makeStrict(); !errors.As(err, &behind) || len(behind.Behind) != 1 || behind.Behind[0].Instance != "SLOW" {
			t.Errorf("%s: %v, want that SLOW has not acted", name, err)
		}
	}
}

// TestTemplateCreatedAgain: to create a strict template again completes it if that broke off, and only then.
func TestTemplateCreatedAgain(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	p := i.join()
	create := func(all *tags.Tags) error {
		return all.CreateTemplate(t.Context(), tagrules.Template{Pattern: "chat.*", Step: 10, Order: tagrules.Strict}, 10)
	}
	if err := create(i.impatient().tags); !errors.Is(err, tags.ErrNotActed) {
		t.Errorf("%v, want ErrNotActed", err)
	}
	p.acted.Store(math.MaxUint64)
	must(t, create(i.tags))
	if err := create(i.tags); !errors.Is(err, tagrules.ErrTemplateExists) {
		t.Errorf("%v, want ErrTemplateExists", err)
	}
}

// TestMadeMeanwhile: a tag that an ordinary template made while a strict one, more specific, was not known
// everywhere becomes strict as one that was there before: its owner drops what it has in memory.
func TestMadeMeanwhile(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.> 10 trend 0 0 1\n"))
	p := i.join()
	w := tagrules.NewWatcher(i.js, prefix, zap.NewNop())
	seen := make(chan bool, 2)
	must(t, w.Start(t.Context()))
	before := w.Revision()
	p.acted.Store(before)
	w.Changed = func(string) { seen <- w.Redecided("chat.1") }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	defer func() { cancel(); <-ended }()
	source, err := backend.Parse("jetstream", "")
	must(t, err)
	s, err := source.Open(t.Context(), backend.Options{JetStream: i.js, Prefix: prefix})
	must(t, err)
	defer func() { _ = s.Close() }()
	done := make(chan error, 1)
	go func() {
		done <- i.tags.CreateTemplate(t.Context(), tagrules.Template{Pattern: "chat.*", Step: 10, Order: tagrules.Strict}, 10)
	}()
	if !await(t, seen) {
		t.Error("what was granted before the template was made is kept")
	}
	must(t, s.CreateTag(t.Context(), store.Tag{Name: "chat.1", Step: 10, Next: 1}))
	p.acted.Store(math.MaxUint64)
	must(t, await(t, done))
	if !await(t, seen) {
		t.Error("what was granted until all had acted is kept")
	}
}

func await[T any](t *testing.T, from chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(natstest.Patience):
		t.Error("nothing came")
	}
	return v
}
