package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// A write takes between 0.05 and a few milliseconds, so a process that lost a race waits
// about that long, and longer each time.
const (
	firstBackoff   = 500 * time.Microsecond
	longestBackoff = 32 * time.Millisecond
)

// backOff waits a random time, whose upper bound doubles with each attempt, counted from
// 0. It returns ctx.Err().
func backOff(ctx context.Context, attempt int) error {
	pause.For(ctx, rand.N(min(longestBackoff, firstBackoff<<min(attempt, 6))))
	return ctx.Err()
}

// errBelow says that a range lies below what was granted.
var errBelow = errors.New("the range lies below what was granted already")

// rowAttempts bounds how often a row is asked in one call. Of several loaders that race one
// wins each time.
const rowAttempts = 256

func checkName(tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return fmt.Errorf("%w: %w", store.ErrBadTag, err)
	}
	return nil
}

func checkReserve(tag string, n int64) error {
	if err := checkName(tag); err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("%w: %d IDs, allowed is 1 or more", store.ErrBadTag, n)
	}
	return nil
}

// Reserve implements [store.Loader]. Without a table it writes once, unless another
// process has written since; with one it asks the table, and then writes once.
func (s *Store) Reserve(ctx context.Context, tag string, n int64) (store.Segment, error) {
	if err := checkReserve(tag, n); err != nil {
		return store.Segment{}, err
	}
	return s.inTurn(ctx, tag, func() (store.Segment, error) {
		if s.cfg.Table != nil {
			return s.reserveRow(ctx, tag, n)
		}
		return s.reserveNext(ctx, tag, n)
	})
}

// ReserveFirst implements [store.Loader].
func (s *Store) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	if err := errors.Join(checkReserve(tag.Name, n), tag.Check()); err != nil {
		return store.Segment{}, err
	}
	return s.inTurn(ctx, tag.Name, func() (store.Segment, error) {
		if s.cfg.Table != nil {
			return s.createRow(ctx, tag, n)
		}
		return s.createNext(ctx, tag, n)
	})
}

// inTurn calls reserve in the turn of a tag, and counts what became of it.
func (s *Store) inTurn(ctx context.Context, tag string, reserve func() (store.Segment, error)) (store.Segment, error) {
	done, err := s.turns.take(ctx, tag)
	if err != nil {
		return store.Segment{}, s.tagError(tag, err)
	}
	defer done()
	seg, err := reserve()
	if err != nil {
		return store.Segment{}, s.tagError(tag, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.figures.Granted++
	return seg, nil
}

func (s *Store) burn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.figures.Burnt++
}

// grant writes that the n IDs from first on are granted, over the record that is known.
func (s *Store) grant(ctx context.Context, tag string, over record, e entry, first, n int64) (store.Segment, error) {
	seg, err := store.Following(first, n)
	if err != nil {
		return seg, err
	}
	e.Next = seg.End
	err = s.write(ctx, tag, record{e, over.revision})
	if err != nil && !errors.Is(err, errStale) {
		s.burn()
	}
	return seg, err
}

// reserveNext reserves what follows the entry of a tag.
func (s *Store) reserveNext(ctx context.Context, tag string, n int64) (store.Segment, error) {
	r, err := s.find(ctx, tag)
	if err == nil && !r.live() {
		r, err = s.read(ctx, tag) // another process may have created it
	}
	for attempt := 0; err == nil; attempt++ {
		if !r.live() {
			return store.Segment{}, store.ErrNoTag
		}
		var seg store.Segment
		seg, err = s.grant(ctx, tag, r, r.entry, r.Next, n)
		if !errors.Is(err, errStale) {
			return seg, err
		}
		r, err = s.readAgain(ctx, tag, attempt)
	}
	return store.Segment{}, err
}

// readAgain reads an entry that another process has written.
func (s *Store) readAgain(ctx context.Context, tag string, attempt int) (record, error) {
	if attempt > 0 {
		if err := backOff(ctx, attempt); err != nil {
			return record{}, err
		}
	}
	return s.read(ctx, tag)
}

// createNext makes the entry of a tag. That there is none is the condition of the write.
// Over the entry of a removed tag it counts on from there.
func (s *Store) createNext(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	r := s.cached(tag.Name)
	var err error
	if r.live() {
		r, err = s.read(ctx, tag.Name)
	}
	for attempt := 0; err == nil; attempt++ {
		if err = s.mayCreate(r); err != nil {
			break
		}
		var seg store.Segment
		seg, err = s.grant(ctx, tag.Name, r, entry{Step: tag.Step}, max(tag.Next, r.Next, s.Lowest()), n)
		if !errors.Is(err, errStale) {
			return seg, err
		}
		r, err = s.readAgain(ctx, tag.Name, attempt)
	}
	return store.Segment{}, err
}

// mayCreate reports whether a tag may come into being by itself where a record is.
func (s *Store) mayCreate(r record) error {
	switch {
	case r.live():
		return store.ErrTagExists
	case !r.exists() && r.revision > 0:
		return errDeleted
	}
	return nil
}

// errDeleted says that an entry was deleted by hand.
var errDeleted = fmt.Errorf("%w: it was deleted by hand, and nothing shows how far it was granted", store.ErrCorrupt)

// Lowest is the lowest first ID of a tag that is created: 1, and more once all tags were
// raised.
func (s *Store) Lowest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// reserveRow has the table propose ranges until one lies above all that was granted.
func (s *Store) reserveRow(ctx context.Context, tag string, n int64) (store.Segment, error) {
	for attempt := range rowAttempts {
		if _, err := s.permit(ctx); err != nil { // or the range would be discarded
			return store.Segment{}, err
		}
		before := s.cached(tag)
		seg, err := s.cfg.Table.Reserve(ctx, tag, n)
		if err != nil {
			return seg, err
		}
		r := before
		if !r.exists() {
			if r, err = s.read(ctx, tag); err != nil {
				s.burn()
				return seg, err
			}
		}
		lowest, err := s.claim(ctx, tag, seg, r)
		switch {
		case !errors.Is(err, errBelow):
			return seg, err
		case before.Next > seg.First: // known before the table was asked, so this is no race
			err = s.raiseRow(ctx, tag, seg, before.Next)
		case !s.Known(tag): // a new row, where a lost tag may have been
			err = s.cfg.Table.Raise(ctx, tag, lowest)
		case attempt > 0:
			err = backOff(ctx, attempt)
		default:
			err = nil
		}
		if err != nil {
			return store.Segment{}, err
		}
	}
	return store.Segment{}, fmt.Errorf("%w, %d times in a row", errBelow, rowAttempts)
}

// claim moves the entry of a tag to the end of a range that the table has proposed. After
// any error the range is discarded; errBelow says that it lies below lowest, from where on
// IDs may be granted: next, or, if there is no entry, where tags that are created begin.
func (s *Store) claim(ctx context.Context, tag string, seg store.Segment, r record) (lowest int64, err error) {
	for attempt := 0; ; attempt++ {
		lowest = r.Next
		switch {
		case r.exists():
		case r.revision > 0:
			s.burn()
			return 0, errDeleted
		default:
			lowest = s.Lowest()
		}
		if lowest > seg.First {
			s.burn()
			return lowest, errBelow
		}
		_, err := s.grant(ctx, tag, r, entry{}, seg.First, seg.Len())
		if !errors.Is(err, errStale) {
			return lowest, err
		}
		if r, err = s.readAgain(ctx, tag, attempt); err != nil {
			s.burn()
			return lowest, err
		}
	}
}

// raiseRow raises a row that returned seg, although all below next had been granted before.
func (s *Store) raiseRow(ctx context.Context, tag string, seg store.Segment, next int64) error {
	s.mu.Lock()
	s.figures.RowsBack++
	first := !s.rowsBack[tag]
	s.rowsBack[tag] = true
	s.mu.Unlock()
	if first {
		s.log.Error("table row went back, raising it", zap.String("table", s.cfg.TableName), zap.String("tag", tag),
			zap.Stringer("returned", seg), zap.Int64("granted_below", next))
	}
	if err := s.cfg.Table.Raise(ctx, tag, next); err != nil {
		return fmt.Errorf("raise the row, which returned %v, to %d: %w", seg, next, err)
	}
	return nil
}

// createRow makes a row that has handed out its first range.
func (s *Store) createRow(ctx context.Context, tag store.Tag, n int64) (store.Segment, error) {
	if _, err := s.permit(ctx); err != nil {
		return store.Segment{}, err
	}
	r := s.cached(tag.Name)
	seg, err := store.Following(max(tag.Next, r.Next, s.Lowest()), n)
	if err != nil {
		return seg, err
	}
	err = s.cfg.Table.CreateTag(ctx, store.Tag{Name: tag.Name, Step: tag.Step, Next: seg.End})
	if err != nil {
		return seg, err
	}
	lowest, err := s.claim(ctx, tag.Name, seg, r)
	if !errors.Is(err, errBelow) {
		return seg, err
	}
	if err := s.cfg.Table.Raise(ctx, tag.Name, lowest); err != nil {
		return seg, err
	}
	return s.reserveRow(ctx, tag.Name, n)
}
