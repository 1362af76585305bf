package tags_test

import (
	"context"
	"errors"
	"testing"

	"github.com/idworker/idworker/store"
)

// TestCreatedByNameAfterRestore: a tag that was made after the backup was taken is not in what is
// restored. One that is created by that name then has to begin above what may have been granted.
func TestCreatedByNameAfterRestore(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 trend 0 0 1\ngone.* 10 trend 0 0 1 removed\n"))
	must(t, i.tags.Create(t.Context(), store.Tag{Name: "chat.before", Step: 10, Next: 1}))
	i.raise(1000)
	for name, create := range map[string]func(context.Context, store.Tag) error{"ordinary": i.tags.Create, "strict": i.tags.CreateStrict} {
		for _, tag := range []string{"chat." + name, "gone." + name, name} {
			var below *store.BelowError
			if err := create(t.Context(), store.Tag{Name: tag, Step: 10, Next: 1}); !errors.As(err, &below) || below.Floor != 1001 {
				t.Errorf("%s, from 1 on: %v, want that 1001 is the lowest", tag, err)
			}
			must(t, create(t.Context(), store.Tag{Name: tag, Step: 10, Next: 1001}))
			if err := create(t.Context(), store.Tag{Name: tag, Step: 10, Next: 1}); !errors.Is(err, store.ErrTagExists) {
				t.Errorf("%s, which exists: %v", tag, err)
			}
		}
	}
}

// TestImportedAfterRestore: nor does such a tag come back lower by a list that was exported before the restore.
func TestImportedAfterRestore(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 trend 0 0 1\nchat.a 10 21\n"))
	i.raise(1000)
	must(t, i.importText("chat.a 10 31\nchat.b 10 41\nchat.c removed 51\nchat.d 10 2001\nplain 10 61\n"))
	want := "chat.* 10 trend 0 0 1001\nchat.a 10 1021\nchat.b 10 1001\nchat.d 10 2001\nplain 10 1001\nchat.c removed 1001\n"
	if got := i.export(); got != want {
		t.Errorf("it is now\n%s", got)
	}
}
