package register

import (
	"cmp"
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
func (s *Store) Reserve(ctx context.Context, tag string, n int64) (store.Grant, error) {
	if err := checkReserve(tag, n); err != nil {
		return store.Grant{}, err
	}
	return s.inTurn(ctx, tag, func() (store.Grant, error) {
		if s.cfg.Table != nil {
			return s.reserveRow(ctx, tag, n, false)
		}
		return s.reserveNext(ctx, tag, n)
	})
}

// ReserveFirst implements [store.Loader].
func (s *Store) ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Grant, error) {
	if err := errors.Join(checkReserve(tag.Name, n), tag.Check()); err != nil {
		return store.Grant{}, err
	}
	return s.inTurn(ctx, tag.Name, func() (store.Grant, error) {
		if s.cfg.Table != nil {
			return s.createRow(ctx, tag, n)
		}
		return s.createNext(ctx, tag, n)
	})
}

// inTurn calls reserve in the turn of a tag, and counts what became of it.
func (s *Store) inTurn(ctx context.Context, tag string, reserve func() (store.Grant, error)) (store.Grant, error) {
	done, err := s.turns.take(ctx, tag)
	if err != nil {
		return store.Grant{}, s.tagError(tag, err)
	}
	defer done()
	granted, err := reserve()
	if err != nil {
		return store.Grant{}, s.tagError(tag, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.figures.Granted++
	return granted, nil
}

func (s *Store) burn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.figures.Burnt++
}

// grant writes that the n IDs from first on are granted, over the record that is known.
// The order granted is the one that it writes.
func (s *Store) grant(ctx context.Context, p sent, tag string, over record, e entry, first, n int64) (store.Grant, error) {
	seg, err := store.Following(first, n)
	if err != nil {
		return store.Grant{}, err
	}
	e.Next = seg.End
	err = s.write(ctx, p, tag, record{e, over.revision})
	if err != nil && !errors.Is(err, errStale) {
		s.burn()
	}
	return store.Grant{Segment: seg, Order: e.order()}, err
}

// reserveNext reserves what follows the entry of a tag.
func (s *Store) reserveNext(ctx context.Context, tag string, n int64) (store.Grant, error) {
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag, attempt, s.live)
		switch {
		case err != nil:
			return store.Grant{}, err
		case !s.live(r):
			return store.Grant{}, store.ErrNoTag
		}
		granted, err := s.grant(ctx, p, tag, r, r.entry, r.Next, n)
		if !errors.Is(err, errStale) {
			return granted, err
		}
	}
}

// createNext makes the entry of a tag. That there is none is the condition of the write.
// Over the entry of a removed tag it counts on from there.
func (s *Store) createNext(ctx context.Context, tag store.Tag, n int64) (store.Grant, error) {
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag.Name, attempt, func(r record) bool { return !s.live(r) })
		if err == nil {
			err = s.mayCreate(tag, r)
		}
		if err != nil {
			return store.Grant{}, err
		}
		e := entry{Step: tag.Step, Order: stored(tag.Order)}
		granted, err := s.grant(ctx, p, tag.Name, r, e, max(tag.Next, r.Next, s.Lowest()), n)
		if !errors.Is(err, errStale) {
			return granted, err
		}
	}
}

// look returns a permit, and the record of a tag as of later: the cached one at the first
// attempt, if that is what the caller goes on with, for an old one makes the write fail;
// and otherwise what the leader has.
func (s *Store) look(ctx context.Context, tag string, attempt int, good func(record) bool) (p sent, r record, err error) {
	if attempt > 1 {
		if err := backOff(ctx, attempt); err != nil {
			return p, r, err
		}
	}
	if p, err = s.permit(ctx); err != nil {
		return p, r, err
	}
	if r = s.cached(tag); attempt == 0 && good(r) {
		return p, r, nil
	}
	r, err = s.read(ctx, tag)
	return p, r, err
}

// mayCreate reports whether a tag may come into being by itself where a record is.
func (s *Store) mayCreate(tag store.Tag, r record) error {
	switch {
	case s.live(r):
		return store.ErrTagExists
	case r.deleted():
		return errDeleted
	}
	return checkOrder(tag, r)
}

// checkOrder reports whether a record has the order of a tag, or none yet.
func checkOrder(tag store.Tag, r record) error {
	if r.exists() && r.Order != stored(tag.Order) {
		return &store.OrderError{Tag: tag.Name, Was: r.order(), Want: entry{Order: tag.Order}.order()}
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
	return max(1, s.evidence.First)
}

// reserveRow has the table propose ranges until one lies above all that was granted. Made
// says that the caller has inserted the row.
func (s *Store) reserveRow(ctx context.Context, tag string, n int64, made bool) (store.Grant, error) {
	for attempt := range rowAttempts {
		if _, err := s.permit(ctx); err != nil { // or the range would be discarded
			return store.Grant{}, err
		}
		before := s.cached(tag)
		seg, err := s.cfg.Table.Reserve(ctx, tag, n)
		if err != nil {
			return store.Grant{}, s.missing(ctx, tag, err)
		}
		granted, lowest, err := s.claim(ctx, tag, seg, made)
		switch {
		case !errors.Is(err, errBelow):
			return granted, err
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
			return store.Grant{}, err
		}
	}
	return store.Grant{}, fmt.Errorf("%w, %d times in a row", errBelow, rowAttempts)
}

// claim moves the entry of a tag to the end of a range that the table has proposed. After
// any error the range is discarded; errBelow says that it lies below lowest, from where on
// IDs may be granted: next, or, if there is no entry, where tags that are created begin.
//
// The mark of a removed tag stays, unless the caller has made the row: the tag may have been
// removed since the table proposed the range.
func (s *Store) claim(ctx context.Context, tag string, seg store.Segment, made bool) (granted store.Grant, lowest int64, err error) {
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag, attempt, record.exists)
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
			s.burn()
			return store.Grant{}, lowest, err
		}
		e := entry{Order: r.Order, Removed: r.Removed && !made}
		if granted, err = s.grant(ctx, p, tag, r, e, seg.First, seg.Len()); !errors.Is(err, errStale) {
			return granted, lowest, err
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
func (s *Store) createRow(ctx context.Context, tag store.Tag, n int64) (store.Grant, error) {
	err := s.announce(ctx, tag, func(r record) error { return s.mayCreate(tag, r) })
	if errors.Is(err, store.ErrTagExists) { // if its row is not missing
		_, err = s.cfg.Table.Find(ctx, tag.Name)
		err = cmp.Or(s.missing(ctx, tag.Name, err), store.ErrTagExists)
	}
	if err != nil {
		return store.Grant{}, err
	}
	seg, err := store.Following(max(tag.Next, s.cached(tag.Name).Next, s.Lowest()), n)
	if err != nil {
		return store.Grant{}, err
	}
	err = s.cfg.Table.CreateTag(ctx, store.Tag{Name: tag.Name, Step: tag.Step, Next: seg.End})
	if err != nil {
		return store.Grant{}, err
	}
	granted, lowest, err := s.claim(ctx, tag.Name, seg, true)
	if !errors.Is(err, errBelow) {
		return granted, err
	}
	if err := s.cfg.Table.Raise(ctx, tag.Name, lowest); err != nil {
		return store.Grant{}, err
	}
	return s.reserveRow(ctx, tag.Name, n, true)
}

// announce writes the entry of a tag whose row is about to be made, unless there is one: a
// row that is there without its creator takes the order from it. It is marked as removed,
// for a creator that stops before the row is made leaves no tag.
func (s *Store) announce(ctx context.Context, tag store.Tag, check func(record) error) error {
	return s.replace(ctx, tag.Name, func(r record) (entry, error) {
		if err := check(r); err != nil || r.exists() {
			return r.entry, err
		}
		next := s.Lowest()
		if r.deleted() { // nothing shows how far it was granted, and the caller has chosen
			next = tag.Next
		}
		return entry{Next: next, Order: stored(tag.Order), Removed: true}, nil
	})
}
