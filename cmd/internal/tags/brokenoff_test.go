package tags_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// TestBrokenOff: what broke off while tags became strict is not done when it is tried again, by the same command
// or by another one, before all have acted.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		before      string // what there is, as an import
		begin, then func(i installation) error
	}{
		"tag import": {
			"order 10 1\n",
			func(i installation) error { return i.importText("order 10 1 strict\n") },
			func(i installation) error { return i.importText("order 10 1 strict\n") },
		},
		"tag import of a template": {
			"other 10 1\n",
			func(i installation) error {
				return i.importText("chat.* 10 strict 0 0 1\n")
			},
			func(i installation) error {
				return i.importText("chat.* 10 strict 0 0 1\n")
			},
		},
		"tag set, tag rm": {
			"chat.* 10 strict 0 0 1\nchat.hot 10 1 trend\n",
			func(i installation) error {
				return i.tags.SetOrder(i.Context(), "chat.hot", tagrules.Strict)
			},
			func(i installation) error { return i.tags.Remove(i.Context(), "chat.hot") },
		},
		"tag set of a template, tag rm": {
			"chat.> 10 strict 0 0 1\nchat.vip.* 10 trend 0 0 1\n",
			func(i installation) error {
				return i.tags.ChangeTemplate(i.Context(), "chat.vip.*", func(t *tagrules.Template) { t.Order = tagrules.Strict }, 10)
			},
			func(i installation) error { return i.tags.RemoveTemplate(i.Context(), "chat.vip.*") },
		},
		"tag rm of a template": {
			"chat.> 10 strict 0 0 1\nchat.vip.* 10 trend 0 0 1\n",
			func(i installation) error { return i.tags.RemoveTemplate(i.Context(), "chat.vip.*") },
			func(i installation) error { return i.tags.RemoveTemplate(i.Context(), "chat.vip.*") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			must(t, i.importText(way.before))
			p := i.join()
			for round, do := range []func(installation) error{way.begin, way.then, way.then} {
				if err := do(i.impatient()); !errors.Is(err, tags.ErrNotActed) {
					t.Errorf("try %d: %v, want ErrNotActed", round, err)
				}
			}
			p.acted.Store(math.MaxUint64)
			if err := way.then(i); err != nil && !errors.Is(err, store.ErrNoTag) {
				t.Errorf("when all have acted: %v", err)
			}
		})
	}
}

// TestChangedMeanwhile: somebody makes a strict template ordinary, between the look at it and the change of another one
// that leaves it strict. So it becomes strict once more, and that is waited for.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	must(t, i.importText("chat.* 10 strict 0 0 1\n"))
	i.join()
	meanwhile := sync.OnceFunc(func() {
		must(t, i.tags.ChangeTemplate(t.Context(), "chat.*", func(t *tagrules.Template) { t.Order = tagrules.Trend }, 10))
	})
	err := i.impatient().tags.ChangeTemplate(t.Context(), "chat.*", func(t *tagrules.Template) {
		meanwhile()
		t.Order = tagrules.Strict
	}, 10)
	if !errors.Is(err, tags.ErrNotActed) {
		t.Errorf("%v, want ErrNotActed", err)
	}
}
