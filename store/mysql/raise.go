package mysql

import (
	"context"
	"errors"
)

// Raise implements [store.Store].
func (s *Store) Raise(context.Context, string, int64) error { return errors.ErrUnsupported }

// RemoveTag implements [store.Store].
func (s *Store) RemoveTag(context.Context, string) error { return errors.ErrUnsupported }
