package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/idworker/idworker/store"
)

// Lookup implements [store.Loader]. A row without an entry is trend.
func (s *Store) Lookup(ctx context.Context, tag string) (store.Tag, error) {
	if err := checkName(tag); err != nil {
		return store.Tag{}, err
	}
	good := s.live
	if s.cfg.Table != nil {
		good = record.exists // the row shows whether the tag exists
	}
	_, r, err := s.look(ctx, tag, 0, good)
	step := r.Step
	switch {
	case err != nil:
	case s.cfg.Table == nil && !s.live(r):
		err = store.ErrNoTag
	case s.cfg.Table != nil:
		if step, err = s.rowStep(ctx, tag); err == nil && r.deleted() {
			err = errDeleted
		}
	}
	if err != nil {
		return store.Tag{}, s.tagError(tag, err)
	}
	return store.Tag{Name: tag, Step: step, Order: r.order()}, nil
}

// rowStep returns the step of a row.
func (s *Store) rowStep(ctx context.Context, tag string) (int64, error) {
	if step, ok := s.steps.get(tag); ok {
		return step, nil
	}
	row, err := s.cfg.Table.Find(ctx, tag)
	if err != nil {
		return 0, s.missing(ctx, tag, err)
	}
	if row.Step < 1 {
		return 0, fmt.Errorf("%w: step is %d in its row, it must be 1 or more", store.ErrCorrupt, row.Step)
	}
	s.steps.put(tag, row.Step)
	return row.Step, nil
}

var (
	errRowMissing = fmt.Errorf("%w: its row is missing in the table, and it was not removed: insert the row again, or remove the tag", store.ErrCorrupt)
	errRowMade    = errors.New("its row is being made")
)

// missing replaces an ErrNoTag of the table by the ErrCorrupt of a tag that was not removed.
func (s *Store) missing(ctx context.Context, tag string, err error) error {
	if !errors.Is(err, store.ErrNoTag) {
		return err
	}
	s.steps.forget(tag)
	r, failed := s.read(ctx, tag)
	switch {
	case failed != nil:
		return failed
	case !s.live(r):
		return err
	}
	// It may have been made since the table was asked, but then it is there now.
	if _, found := s.cfg.Table.Find(ctx, tag); !errors.Is(found, store.ErrNoTag) {
		return errors.Join(errRowMade, found)
	}
	return errRowMissing
}

// steps caches the steps of rows, for a minute. The zero value is ready for use.
type steps struct {
	mu    sync.Mutex
	tags  map[string]rowStep
	sweep int // how many there may be until old ones are dropped
}

type rowStep struct {
	step int64
	read time.Time
}

const stepAge = time.Minute

func (r rowStep) old() bool { return time.Since(r.read) >= stepAge }

func (c *steps) get(tag string) (step int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.tags[tag]
	return r.step, ok && !r.old()
}

func (c *steps) put(tag string, step int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tags) >= c.sweep {
		maps.DeleteFunc(c.tags, func(_ string, r rowStep) bool { return r.old() })
		c.sweep = max(1024, 2*len(c.tags))
	}
	if c.tags == nil {
		c.tags = make(map[string]rowStep)
	}
	c.tags[tag] = rowStep{step, time.Now()}
}

func (c *steps) forget(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tags, tag)
}
