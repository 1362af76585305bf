package sql_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/idworker/idworker/store"
)

// unreadable returns the EntryErrors in an error of Store.Tags. It reports as
// well whether these are all: otherwise an entry of unknown name could not be
// read.
func unreadable(err error) (entries []*store.EntryError, all bool) {
	switch e := err.(type) { //nolint:errorlint // goes through the whole tree, of which errors.As finds one
	case nil:
		return nil, true
	case *store.EntryError:
		return []*store.EntryError{e}, true
	case interface{ Unwrap() error }:
		return unreadable(e.Unwrap())
	case interface{ Unwrap() []error }:
		all = true
		for _, part := range e.Unwrap() {
			more, named := unreadable(part)
			entries, all = append(entries, more...), all && named
		}
		return entries, all
	}
	return nil, false
}

// TestUnreadable finds the names of entries under whatever they are wrapped in,
// and notices entries without a name.
func TestUnreadable(t *testing.T) {
	entry := func(tag string) error {
		return &store.EntryError{Tag: tag, Err: fmt.Errorf("%w: %s", store.ErrCorrupt, tag)}
	}
	nameless := fmt.Errorf("%w: biz_tag is NULL", store.ErrCorrupt)
	for _, c := range []struct {
		why  string
		err  error
		tags []string
		all  bool
	}{
		{"no error", nil, nil, true},
		{"one", entry("a"), []string{"a"}, true},
		{"wrapped and joined", fmt.Errorf("table t: %w", errors.Join(entry("a"), entry("b"))), []string{"a", "b"}, true},
		{"one of them nameless", fmt.Errorf("table t: %w", errors.Join(entry("a"), nameless, entry("b"))), []string{"a", "b"}, false},
		{"two verbs", fmt.Errorf("%w and %w", entry("a"), errors.Join(entry("b"))), []string{"a", "b"}, true},
		{"nameless", nameless, nil, false},
		{"some other error", errors.New("away"), nil, false},
	} {
		entries, all := unreadable(c.err)
		var tags []string
		for _, e := range entries {
			if !errors.Is(e, store.ErrCorrupt) {
				t.Errorf("%s: %v is not ErrCorrupt", c.why, e)
			}
			tags = append(tags, e.Tag)
		}
		if !slices.Equal(tags, c.tags) || all != c.all {
			t.Errorf("%s: %v, all of them: %t; want %v, %t", c.why, tags, all, c.tags, c.all)
		}
	}
}
