package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
)

// errBelow reports a range below an earlier grant.
var errBelow = errors.New("range below an earlier grant")

// rowAttempts bounds the attempts at a row in a call. Each time, a racing
// loader wins.
const rowAttempts = 256

// reserveRow has the table propose ranges until a range lies above all earlier
// grants. made reports whether the caller has inserted the row.
func (s *Register) reserveRow(ctx context.Context, tag string, wants []store.Want, made bool) (store.Reservation, error) {
	for attempt := range rowAttempts {
		before, step, err := s.lookUpRow(ctx, tag)
		if err != nil {
			return store.Reservation{}, err
		}
		if err := before.order().Admit(wants); err != nil { // before the row moves
			return store.Reservation{Order: before.order(), Step: step}, err
		}
		n := store.Total(wants, before.order(), step)
		seg, err := s.cfg.Table.Reserve(ctx, tag, n)
		if errors.Is(err, store.ErrExhausted) && before.Order != store.Strict {
			seg, err = s.cfg.Table.ReserveRest(ctx, tag, n)
		}
		if err != nil { // the order matters if the row is exhausted
			if !errors.Is(err, store.ErrNoTag) && !errors.Is(err, store.ErrExhausted) {
				s.moves.discardUnknown(tag)
			}
			return store.Reservation{Order: before.order(), Step: step}, s.missing(ctx, tag, err)
		}
		granted, lowest, err := s.claim(ctx, tag, seg, made, step, wants)
		if err != nil {
			s.moves.discard(tag, seg.First, seg.End)
		}
		switch {
		case !errors.Is(err, errBelow):
			return granted, err
		// Read before the table's reply, so this is no race.
		case before.Next > seg.First:
			err = s.raiseRow(ctx, tag, seg, before.Next)
		case !s.Known(tag): // a new row, where a lost tag may have been
			err = s.cfg.Table.Raise(ctx, tag, lowest)
		case attempt > 0:
			err = backOff(ctx, attempt)
		default:
			err = nil
		}
		if err != nil {
			return store.Reservation{}, err
		}
	}
	return store.Reservation{}, fmt.Errorf("%w, %d times in a row", errBelow, rowAttempts)
}

// lookUpRow returns the entry of a tag, with revision 0 if there is none yet,
// and the step of its row. It begins with a permit, without which a range of
// the row would be discarded.
func (s *Register) lookUpRow(ctx context.Context, tag string) (r storedEntry, step int64, err error) {
	if _, r, err = s.look(ctx, tag, 0, storedEntry.exists); err != nil {
		return r, 0, err
	}
	if step, err = s.rowStep(ctx, tag); err == nil && r.deleted() {
		err = errDeleted
	}
	return r, step, err
}

// claim moves the entry of a tag to the end of a range that the table proposed.
// After any error the range is discarded. errBelow means that it lies below
// lowest, the first ID that may be granted: next, or, without an entry, the
// lowest first ID of new tags.
//
// The mark of a removed tag stays, unless the caller has made the row: the tag
// may have been removed since the table proposed the range.
func (s *Register) claim(ctx context.Context, tag string, seg store.Segment, made bool, step int64, wants []store.Want) (granted store.Reservation, lowest int64, err error) {
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag, attempt, storedEntry.exists)
		if err == nil && r.deleted() {
			err = errDeleted
		}
		if lowest = r.Next; !r.exists() {
			lowest = s.Lowest()
		}
		if err == nil && lowest > seg.First {
			err = errBelow
		}
		if err != nil {
			s.burnt.Add(1)
			return granted, lowest, err
		}
		e := storedEntry{entry{Order: r.Order, Removed: r.Removed && !made}, r.revision}
		if granted, err = s.grant(ctx, p, tag, e, step, seg, wants); !errors.Is(err, errStale) {
			if err == nil && r.exists() && !made && seg.First > r.Next {
				s.moves.skip(tag, r.Next, seg.First)
			}
			if err == nil && granted.End() < seg.End {
				s.moves.discard(tag, granted.End(), seg.End)
			}
			return granted, lowest, err
		}
	}
}

// raiseRow raises a row that returned seg, although all below next had been
// granted before.
func (s *Register) raiseRow(ctx context.Context, tag string, seg store.Segment, next int64) error {
	if s.moves.wentBack(tag) {
		s.cfg.Log.Error("table row regressed; raising it", zap.String("table", s.cfg.TableName), zap.String("tag", tag),
			zap.Stringer("returned", seg), zap.Int64("granted_below", next))
	}
	if err := s.cfg.Table.Raise(ctx, tag, next); err != nil {
		return fmt.Errorf("raise the row, which returned %v, to %d: %w", seg, next, err)
	}
	return nil
}

// createRow inserts a row whose first range is already reserved.
func (s *Register) createRow(ctx context.Context, tag store.Tag, wants []store.Want) (store.Reservation, error) {
	var next int64 // of a removed tag
	err := s.announce(ctx, tag, func(r storedEntry) error {
		next = r.Next
		return cmp.Or(s.mayCreate(tag, r), tag.Order.Admit(wants))
	})
	if errors.Is(err, store.ErrTagExists) { // unless its row is missing
		_, err = s.cfg.Table.Find(ctx, tag.Name)
		err = cmp.Or(s.missing(ctx, tag.Name, err), store.ErrTagExists)
	}
	if err != nil {
		return store.Reservation{}, err
	}
	seg := store.Segment{First: max(tag.Next, next, s.lowest(tag)), End: math.MaxInt64}
	planned, err := seg.Divide(tag.Order, tag.Step, wants)
	if err != nil {
		return planned, err
	}
	seg.End = planned.End()
	err = s.cfg.Table.CreateTag(ctx, store.Tag{Name: tag.Name, Step: tag.Step, Next: seg.End})
	if err != nil {
		return store.Reservation{}, err
	}
	granted, lowest, err := s.claim(ctx, tag.Name, seg, true, tag.Step, wants)
	if !errors.Is(err, errBelow) {
		return granted, err
	}
	if err := s.cfg.Table.Raise(ctx, tag.Name, lowest); err != nil {
		return store.Reservation{}, err
	}
	return s.reserveRow(ctx, tag.Name, wants, true)
}

// announce writes the entry of a tag before its row is inserted, unless there
// is an entry: a row that its creator abandons takes the order from it. The
// entry is marked as removed, because a creator that stops before the row is
// inserted leaves no tag.
func (s *Register) announce(ctx context.Context, tag store.Tag, check func(storedEntry) error) error {
	return s.replace(ctx, tag.Name, func(r storedEntry) (entry, error) {
		if err := check(r); err != nil || r.exists() {
			return r.entry, err
		}
		next := s.lowest(tag)
		// The last grant is unknown, and the caller has chosen a first ID.
		if r.deleted() {
			next = tag.Next
		}
		return entry{Next: next, Order: stored(tag.Order), Removed: true}, nil
	})
}

// listRows returns the rows of the table, and apart from them those whose names
// are not those of tags. Leaf's servers may use those. Nobody gets IDs of them
// here, because every method checks the name that it is called with, so they are
// not to be raised, moved or backed up, and the register cannot have such names.
func (s *Register) listRows(ctx context.Context) (rows, others []store.Tag, err error) {
	if s.cfg.Table == nil {
		return nil, nil, nil
	}
	list, err := s.cfg.Table.Tags(ctx)
	rows = list[:0]
	for _, row := range list {
		if checkName(row.Name) == nil {
			rows = append(rows, row)
		} else {
			others = append(others, row)
		}
	}
	return rows, others, err
}

// Others returns the rows whose names are not those of tags, see listRows.
func (s *Register) Others(ctx context.Context) ([]store.Tag, error) {
	_, others, err := s.listRows(ctx)
	return others, err
}

// rowsByName returns the rows of the table. Corrupt has an error if some rows
// cannot be read.
func (s *Register) rowsByName(ctx context.Context) (rows map[string]store.Tag, corrupt []error, err error) {
	list, _, err := s.listRows(ctx)
	if errors.Is(err, store.ErrCorrupt) {
		corrupt, err = []error{err}, nil
	}
	rows = make(map[string]store.Tag, len(list))
	for _, row := range list {
		rows[row.Name] = row
	}
	return rows, corrupt, err
}

// rowStep returns the step of a row.
func (s *Register) rowStep(ctx context.Context, tag string) (int64, error) {
	if step, ok := s.steps.get(tag); ok {
		return step, nil
	}
	row, err := s.cfg.Table.Find(ctx, tag)
	if err != nil {
		return 0, s.missing(ctx, tag, err)
	}
	if row.Step < 1 {
		return 0, fmt.Errorf("%w: step %d in its row, allowed is 1 or more", store.ErrCorrupt, row.Step)
	}
	s.steps.put(tag, row.Step)
	return row.Step, nil
}

var (
	errRowMissing = fmt.Errorf("%w: row missing from the table; insert it again or remove the tag", store.ErrCorrupt)
	errRowMade    = errors.New("its row is being created")
)

// missing replaces an ErrNoTag of the table with the ErrCorrupt of a tag that
// was not removed.
func (s *Register) missing(ctx context.Context, tag string, err error) error {
	if !errors.Is(err, store.ErrNoTag) {
		return err
	}
	s.steps.forget(tag)
	r, failed := s.read(ctx, tag, store.Claim{})
	switch {
	case failed != nil:
		return failed
	case !s.live(r):
		return err
	}
	// The row may have been inserted since, but then it is there now.
	if _, found := s.cfg.Table.Find(ctx, tag); !errors.Is(found, store.ErrNoTag) {
		return errors.Join(errRowMade, found)
	}
	return errRowMissing
}

// steps caches the steps of rows, for a minute. The zero value is ready for
// use.
type steps struct {
	mu    sync.Mutex
	tags  map[string]rowStep
	sweep int // size at which old steps are dropped
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
