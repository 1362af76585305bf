package register

import (
	"context"
	"errors"

	"github.com/idworker/idworker/store"
)

// Preview passes to visit what Rewrite would do, and writes nothing. Names may be
// parts of longer strings. An error of the rule, as of an import that does not
// fit, is that of Preview. An error that wraps [store.ErrCorrupt] is about some
// tags only, which Rewrite would leave as they are.
func (s *Register) Preview(ctx context.Context, r Rule, visit func(Change)) error {
	return errors.ErrUnsupported
}

// Rewrite applies a rule to the entries, and then to the rows, and reports each
// tag. It may fail at any point, and can be repeated. A [Raise] needs the mark,
// and an [Import] a Preview, because it stops at the first tag that does not
// fit. The error wraps [store.ErrCorrupt] if all but unreadable entries and rows
// were rewritten.
func (s *Register) Rewrite(ctx context.Context, r Rule, report func(Change)) error {
	return errors.ErrUnsupported
}

// Unlisted counts the entries of names that a list lacks, which is sorted by
// name.
func (s *Register) Unlisted(ctx context.Context, list []store.Tag) (n int, err error) {
	return 0, errors.ErrUnsupported
}

// Others returns the rows whose names are not those of tags, see listRows.
func (s *Register) Others(ctx context.Context) ([]store.Tag, error) {
	_, others, err := s.listRows(ctx)
	return others, err
}

// Survey opens a register to see what a rule would do, for Preview, Unlisted and
// Others only. A missing register reads as an empty one, one that regressed as
// it is. Survey writes nothing.
func Survey(ctx context.Context, cfg Config) (*Register, error) {
	return nil, errors.ErrUnsupported
}
