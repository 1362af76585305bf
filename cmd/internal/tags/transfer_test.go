package tags_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/testing/natstest"
)

const prefix = messages.DefaultPrefix

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// installation counts in JetStream, without workers.
type installation struct {
	*testing.T
	js     jetstream.JetStream
	source backend.Backend
	tags   *tags.Tags
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	js := natstest.JetStream(t, natstest.Start(t).Connect(t, nats.ReconnectBufSize(-1)))
	source, err := backend.Parse("jetstream", "")
	must(t, err)
	must(t, register.Create(t.Context(), js, prefix, 1))
	i := &installation{T: t, js: js, source: source}
	i.open()
	return i
}

// open opens the tags, as the next command does.
func (i *installation) open() {
	i.Helper()
	all, err := tags.Open(i.Context(), i.js, prefix, i.source)
	must(i.T, err)
	i.Cleanup(all.Close)
	i.tags = all
}

// raise raises all tags.
func (i *installation) raise(by int64) {
	i.Helper()
	_, err := tags.RaiseAlone(i.Context(), i.js, prefix, i.source, raiseBy(by))
	must(i.T, err)
	i.open()
}

// raiseBy is a raise of all tags by a number.
func raiseBy(n int64) tags.Raising {
	return tags.Raising{By: n, Report: func(tags.Change) {}}
}

func (i *installation) export() string {
	i.Helper()
	all, err := i.tags.Export(i.Context())
	must(i.T, err)
	var text bytes.Buffer
	must(i.T, all.Text(&text))
	return text.String()
}

func (i *installation) importText(text string) error {
	i.Helper()
	all, err := tags.Parse(strings.NewReader(text))
	must(i.T, err)
	return i.tags.Import(i.Context(), all, func(tags.Change) {})
}

const exported = `chat.* 10 strict 1000 50 7001
day.> 20 trend 0 0 1
chat.1 10 11
chat.hot 500 21 strict
order 1000 5 strict
plain 1000 6
gone removed 78 strict
old removed 77
`

// TestImport: an import copies the exported installation, with orders and
// templates. An interrupted import can be repeated to complete it, and another
// repetition changes nothing.
func TestImport(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	lines := slices.Collect(strings.Lines(exported))
	done := slices.Concat(lines[2:], lines[:2]) // in the order of an import
	for n := range done {
		must(t, i.importText(strings.Join(done[:n+1], "")))
	}
	for range 2 {
		if got := i.export(); got != exported {
			t.Errorf("exported again:\n%s", got)
		}
		must(t, i.importText(exported))
	}
	list, made, err := i.tags.List(t.Context(), "")
	must(t, err)
	if made["chat.*"] != 2 || len(list.Tags) != 2 { // order and plain
		t.Errorf("templates count for %v, others are %v", made, list.Tags)
	}
}

// TestImportedUpward: an import lowers no tag, and raises only the first ID of
// an existing template.
func TestImportedUpward(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 strict 1000 50 1\norder 10 50 strict\nother 10 50\nold removed 50\n"))
	must(t, i.importText("chat.* 20 trend 1 1 9\norder 10 40 strict\nother 99 60 trend\nold 10 40\n"))
	if got, want := i.export(), "chat.* 10 strict 1000 50 9\nold 10 50\norder 10 50 strict\nother 10 60\n"; got != want {
		t.Errorf("it is now\n%s", got)
	}
}

// TestImportTagsFirst: until all tags exist, no template creates a tag that
// begins with 1.
func TestImportTagsFirst(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	all, err := tags.Parse(strings.NewReader(exported))
	must(t, err)
	must(t, i.tags.Import(t.Context(), all, func(r tags.Change) {
		made, err := i.tags.Templates(t.Context())
		must(t, err)
		if !r.Template && len(made) > 0 {
			t.Errorf("tag %s is imported, and these templates are in force: %v", r.Tag, made)
		}
	}))
}

// TestImportRefused: a list that does not fit is rejected before any change.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 trend 0 0 1\norder 10 1\nserial 10 1 strict\nold removed 5 strict\n"))
	before := i.export()
	for text, want := range map[string]error{
		"new 10 1\norder 10 9 strict\n":      store.ErrOrder,
		"new 10 1\nserial 10 9\n":            store.ErrOrder,
		"new 10 1\nold 10 9 trend\n":         store.ErrOrder,
		"new 10 1\norder removed 9 strict\n": store.ErrOrder,
		"new 10 1\n*.1 10 trend 0 0 1\n":     templates.ErrOverlap,
	} {
		if err := i.importText(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
		if got := i.export(); got != before {
			t.Errorf("%q: refused, and yet it is now\n%s", text, got)
		}
	}
}

// TestAfterRestore: a restored backup lacks a tag that was created afterwards.
// A tag of that name begins above all possible grants, whether it is created by
// name, imported, or made by a template.
func TestAfterRestore(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 trend 0 0 1\nchat.a 10 21\n"))
	i.raise(1000)
	var below *store.BelowError
	if err := i.tags.Create(t.Context(), store.Tag{Name: "new", Step: 10, Next: 1}); !errors.As(err, &below) || below.Floor != 1001 {
		t.Errorf("from 1 on: %v, want that 1001 is the lowest", err)
	}
	templates, err := i.tags.Templates(t.Context())
	if must(t, err); len(templates) != 1 || templates[0].First != 1001 {
		t.Errorf("templates begin at %v, want 1001", templates)
	}
	must(t, i.importText("chat.a 10 31\nchat.b 10 41\nchat.c removed 51\nchat.d 10 2001\nplain 10 61\n"))
	want := "chat.* 10 trend 0 0 1\nchat.a 10 1021\nchat.b 10 1001\nchat.d 10 2001\nplain 10 1001\nchat.c removed 1001\n"
	floor, got, _ := strings.Cut(i.export(), "\n")
	if !strings.HasPrefix(floor, "floor 1001 ") || got != want {
		t.Errorf("it is now\n%s\n%s", floor, got)
	}
}

// TestMarkedList: a byte-order mark, which some shells write at the start of a
// file, is invisible, so the error names it.
func TestMarkedList(t *testing.T) {
	for _, mark := range []string{"\xEF\xBB\xBF", "\xFF\xFE"} {
		if _, err := tags.Parse(strings.NewReader(mark + "ok 10 1\n")); !errors.Is(err, tags.ErrFormat) || !errors.Is(err, secretfile.ErrMark) {
			t.Errorf("%q: %v", mark, err)
		}
	}
}

// TestReadTransfer: errors name the malformed lines.
func TestReadTransfer(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"order 10 1 sideways", "order 10 1 strict 5", "order removed 1 sideways", "order 0 1", "order removed 0", "order 10 strict", "chat.* 10 1", "chat.* 10 sideways 0 0 1",
		"floor", "floor 5", "floor 5 now", "floor 0 2026-11-20T00:00:00Z", "floor x 2026-11-20T00:00:00Z", "floor 5 2026-11-20T00:00:00Z 1",
		"chat.* 10 trend 0 0 1 yyyyMMdd", "chat.* 10 trend 0 0 1 yyyyMMdd 0", "chat.* 10 trend 0 0 1 yyyyMMdd x", "chat.* 10 trend 0 0 1 MMdd 5", "chat.* 10 trend 0 0 1 yyyyMMdd 5 5",
		"chat.* 0 trend 0 0 1", "chat.* 10 trend -1 0 1", "chat.* 10 trend 0 0", "chat.* 10 trend 0 0 -1", "chat.* 10 trend 0 0 1 removed", "cha*t 10 trend 0 0 1", "chat.* 10 trend 0 0 x",
	} {
		if _, err := tags.Parse(strings.NewReader("ok 10 1\n" + line + "\n")); !errors.Is(err, tags.ErrFormat) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestListWithFloor: a tag that a restore lost begins above its lost IDs in the
// installation to which the list is moved, too, although no line names it.
func TestListWithFloor(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("order 10 5\n"))
	i.raise(1000)
	moved, busy := newInstallation(t), newInstallation(t)
	for range 2 { // an import can be repeated
		must(t, moved.importText(i.export()))
		moved.open()
	}
	// Whether other tags here lack grants is unknown: a raise decides.
	must(t, busy.importText("other 10 7\n"))
	if err := busy.importText(i.export()); !errors.Is(err, tags.ErrRaiseFirst) {
		t.Errorf("beside other tags: %v", err)
	}
	_, err := tags.RaiseAlone(t.Context(), busy.js, prefix, busy.source, tags.Raising{Report: func(tags.Change) {}})
	must(t, err)
	busy.open()
	must(t, busy.importText(i.export()))
	lost, err := moved.tags.CreateLowest(t.Context(), store.Tag{Name: "lost", Step: 10})
	if err != nil || lost.Next != 1001 {
		t.Errorf("%+v, %v; want 1001", lost, err)
	}
	if got := moved.export(); !strings.HasPrefix(got, "floor 1001 ") || !strings.HasSuffix(got, "lost 10 1001\norder 10 1005\n") {
		t.Errorf("it is now\n%s", got)
	}
}
