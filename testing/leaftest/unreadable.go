package leaftest

import "github.com/idworker/idworker/store"

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
