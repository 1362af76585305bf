package recovery

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
)

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
	i := newInstallation(t, options{})
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
	list, made, err := i.tags().List(t.Context(), "")
	must(t, err)
	if made["chat.*"] != 2 || len(list.Tags) != 2 { // order and plain
		t.Errorf("templates count for %v, others are %v", made, list.Tags)
	}
}

// TestImportedUpward: an import lowers no tag, and raises only the first ID of
// an existing template.
func TestImportedUpward(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{list: "chat.* 10 strict 1000 50 1\norder 10 50 strict\nother 10 50\nold removed 50\n"})
	must(t, i.importText("chat.* 20 trend 1 1 9\norder 10 40 strict\nother 99 60 trend\nold 10 40\n"))
	if got, want := i.export(), "chat.* 10 strict 1000 50 9\nold 10 50\norder 10 50 strict\nother 10 60\n"; got != want {
		t.Errorf("it is now\n%s", got)
	}
}

// TestImportTagsFirst: until all tags exist, no template creates a tag that
// begins with 1.
func TestImportTagsFirst(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{})
	all := i.tags()
	must(t, Import(t.Context(), i.Site, parse(t, exported), false, func(c tags.Change) {
		made, err := all.Templates(t.Context())
		must(t, err)
		if !c.Template && len(made) > 0 {
			t.Errorf("tag %s is imported, and these templates are in force: %v", c.Tag, made)
		}
	}))
}

// TestImportRefused: a list that does not fit is rejected before any change.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{list: "chat.* 10 trend 0 0 1\norder 10 1\nserial 10 1 strict\nold removed 5 strict\n"})
	for text, want := range map[string]error{
		"new 10 1\norder 10 9 strict\n":      store.ErrOrder,
		"new 10 1\nserial 10 9\n":            store.ErrOrder,
		"new 10 1\nold 10 9 trend\n":         store.ErrOrder,
		"new 10 1\norder removed 9 strict\n": store.ErrOrder,
		"new 10 1\n*.1 10 trend 0 0 1\n":     templates.ErrOverlap,
	} {
		i.untouched(func() {
			dry := Import(t.Context(), i.Site, parse(t, text), true, func(tags.Change) {})
			if err := i.importText(text); !errors.Is(err, want) || !errors.Is(dry, want) {
				t.Errorf("%q: %v, as a dry run %v; want %v", text, err, dry, want)
			}
		})
	}
}

// TestImportAfterARaise: a restored backup lacks a tag that was created
// afterwards. A tag of that name begins above all possible grants, whether it is
// imported or made by a template.
func TestImportAfterARaise(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{alone: true, list: "chat.* 10 trend 0 0 1\nchat.a 10 21\n"})
	_, err := i.do(Wish{By: 1000})
	must(t, err)
	templates, err := i.tags().Templates(t.Context())
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

// TestListWithFloor: a tag that a restore lost begins above its lost IDs in the
// installation to which the list is moved, too, although no line names it.
func TestListWithFloor(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{alone: true, list: "order 10 5\n"})
	_, err := i.do(Wish{By: 1000})
	must(t, err)
	list := parse(t, i.export())
	moved, busy := newInstallation(t, options{alone: true}), newInstallation(t, options{alone: true, list: "other 10 7\n"})
	for range 2 { // an import can be repeated
		_, err := moved.do(Wish{List: &list})
		must(t, err)
	}
	// Whether other tags here lack grants is unknown: a raise decides.
	if _, err := busy.do(Wish{List: &list}); !errors.Is(err, ErrRaiseFirst) {
		t.Errorf("beside other tags: %v", err)
	}
	_, err = busy.do(Wish{})
	must(t, err)
	_, err = busy.do(Wish{List: &list})
	must(t, err)
	lost, err := moved.tags().CreateLowest(t.Context(), store.Tag{Name: "lost", Step: 10})
	if err != nil || lost.Next != 1001 {
		t.Errorf("%+v, %v; want 1001", lost, err)
	}
	if got := moved.export(); !strings.HasPrefix(got, "floor 1001 ") || !strings.HasSuffix(got, "lost 10 1001\norder 10 1005\n") {
		t.Errorf("it is now\n%s", got)
	}
}

// TestImportOfNoRegister: a dry run refuses a register that the import would
// refuse: one that is missing, and one that is being raised.
func TestImportOfNoRegister(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*installation){
		"missing": func(i *installation) { i.lose(register.BucketName(prefix)) },
		"being raised": func(i *installation) {
			segments, err := i.source.OpenToRaise(t.Context(), register.Config{JetStream: i.js, Prefix: prefix}, 1, 0, true)
			must(t, err)
			_, err = segments.Mark(t.Context(), 1000, register.MarkOptions{Over: true, Alone: true})
			must(t, err)
		},
	} {
		i := newInstallation(t, options{list: "order 10 5\n"})
		spoil(i)
		for _, dry := range []bool{true, false} {
			err := Import(t.Context(), i.Site, parse(t, "order 10 50\n"), dry, func(tags.Change) {})
			if !errors.Is(err, store.ErrRegressed) {
				t.Errorf("%s, dry %v: %v, want an ErrRegressed", name, dry, err)
			}
		}
	}
}

// TestImportAsksForNoMoreThanItNeeds: an import that decides nothing needs no
// evidence of earlier raises, which its user may not be able to read.
func TestImportAsksForNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, options{})
	config, err := i.js.KeyValue(t.Context(), agreement.BucketName(prefix))
	must(t, err)
	_, err = config.PutString(t.Context(), agreement.FloorKey, "unreadable")
	must(t, err)
	must(t, i.importText("order 10 5\n"))
	if err := i.importText("floor 500 2026-01-01T00:00:00Z\norder 10 5\n"); err == nil {
		t.Error("a list with a floor is imported without the evidence")
	}
}
