package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// A write takes between 0.05 and a few milliseconds, so a process that lost a
// race waits about that long, and longer each time.
const (
	firstBackoff   = 500 * time.Microsecond
	longestBackoff = 32 * time.Millisecond
)

// backOff waits a random time, whose upper bound doubles with each attempt,
// counted from 0. It returns ctx.Err().
func backOff(ctx context.Context, attempt int) error {
	pause.For(ctx, rand.N(min(longestBackoff, firstBackoff<<min(attempt, 6))))
	return ctx.Err()
}

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

// Lookup implements [store.Loader]. A row without an entry is trend.
func (s *Store) Lookup(ctx context.Context, tag string) (store.Tag, error) {
	if err := checkName(tag); err != nil {
		return store.Tag{}, err
	}
	good := s.live
	if s.cfg.Table != nil {
		good = storedEntry.exists // the row shows whether the tag exists
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

// Probe implements [store.Loader]. It reads nothing of the register, because
// Run polls it anyway.
func (s *Store) Probe(ctx context.Context, write bool) error {
	err := s.checkPolled()
	if s.cfg.Table != nil {
		err = s.cfg.Table.Probe(ctx)
	}
	if err != nil || !write {
		return err
	}
	return s.rewrite(ctx)
}

// rewrite writes an entry as it is, of any tag that was granted lately: that
// proves that writes succeed. Without such a tag it writes nothing.
func (s *Store) rewrite(ctx context.Context) error {
	tag, found := s.anyTag()
	if !found {
		return nil
	}
	done, err := s.locks.lock(ctx, tag)
	if err != nil {
		return err
	}
	defer done()
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag, attempt, storedEntry.exists)
		if err == nil && r.exists() {
			err = s.write(ctx, p, tag, r)
		}
		if !errors.Is(err, errStale) {
			return s.tagError(tag, err)
		}
	}
}

func (s *Store) anyTag() (tag string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, r := range s.cache {
		if s.live(r) {
			return tag, true
		}
	}
	return "", false
}

// Reserve implements [store.Loader]. Without a table it writes once, unless
// another process has written since. With a table it reserves a range there,
// then writes once.
func (s *Store) Reserve(ctx context.Context, tag string, n int64) (store.Grant, error) {
	if err := checkReserve(tag, n); err != nil {
		return store.Grant{}, err
	}
	return s.withLock(ctx, tag, func() (store.Grant, error) {
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
	if s.isFull() {
		return store.Grant{}, store.ErrNoRoom
	}
	return s.withLock(ctx, tag.Name, func() (store.Grant, error) {
		if s.cfg.Table != nil {
			return s.createRow(ctx, tag, n)
		}
		return s.createNext(ctx, tag, n)
	})
}

func (s *Store) isFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

// withLock calls reserve while it holds the lock of a tag, and counts the
// outcome.
func (s *Store) withLock(ctx context.Context, tag string, reserve func() (store.Grant, error)) (store.Grant, error) {
	done, err := s.locks.lock(ctx, tag)
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

// fit is n, or for a trend tag what is left from first, if that is less.
func fit(o store.Order, first, n int64) int64 {
	if left := store.Left(first); o != store.Strict && left > 0 {
		return min(n, left)
	}
	return n
}

// grant records the n IDs from first as granted, over the entry that was read:
// fewer for a trend tag that has fewer left. The granted order is the order that
// it writes.
func (s *Store) grant(ctx context.Context, p sent, tag string, over storedEntry, e entry, first, n int64) (store.Grant, error) {
	seg, err := store.Following(first, fit(e.Order, first, n))
	if err != nil {
		return store.Grant{}, err
	}
	e.Next = seg.End
	err = s.write(ctx, p, tag, storedEntry{e, over.revision})
	if err != nil && !errors.Is(err, errStale) {
		s.burn()
	}
	return store.Grant{Segment: seg, Order: e.order()}, err
}

// reserveNext reserves the IDs after the entry of a tag.
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

// createNext creates the entry of a tag, on the condition that it has none.
// Over the entry of a removed tag it continues from there.
func (s *Store) createNext(ctx context.Context, tag store.Tag, n int64) (store.Grant, error) {
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag.Name, attempt, func(r storedEntry) bool { return !s.live(r) })
		if err == nil {
			err = s.mayCreate(tag, r)
		}
		if err != nil {
			return store.Grant{}, err
		}
		e := entry{Step: tag.Step, Order: stored(tag.Order)}
		granted, err := s.grant(ctx, p, tag.Name, r, e, max(tag.Next, r.Next, s.lowest(tag)), n)
		if !errors.Is(err, errStale) {
			return granted, err
		}
	}
}

// look returns a permit, and the entry of a tag read after that permit. The
// first attempt returns the cached entry if it is good: a stale entry only
// makes the write fail. Otherwise it reads the leader's.
func (s *Store) look(ctx context.Context, tag string, attempt int, good func(storedEntry) bool) (p sent, r storedEntry, err error) {
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

// mayCreate reports whether a tag may be created automatically over its entry.
func (s *Store) mayCreate(tag store.Tag, r storedEntry) error {
	switch {
	case s.live(r):
		return store.ErrTagExists
	case r.deleted():
		return errDeleted
	}
	return checkOrder(tag, r)
}

// checkOrder reports whether an entry has the order of a tag, or none yet.
func checkOrder(tag store.Tag, r storedEntry) error {
	if r.exists() && r.Order != stored(tag.Order) {
		return &store.OrderError{Tag: tag.Name, Was: r.order(), Want: entry{Order: tag.Order}.order()}
	}
	return nil
}

// errDeleted reports an entry that was deleted by hand.
var errDeleted = fmt.Errorf("%w: deleted by hand, so its last grant is unknown", store.ErrCorrupt)

// Lowest returns the lowest first ID of a new tag: 1, and more once all tags
// were raised.
func (s *Store) Lowest() int64 { return s.lowest(store.Tag{}) }

// lowest returns the lowest first ID of a tag without an entry. A tag that was
// not used before the latest decision cannot have lost IDs in the regression
// that the decision ended. Only the decision's time counts, and no clock of
// this process.
//
// A caller that writes calls it after its permit: once this process adopts
// another decision, the permit is void.
func (s *Store) lowest(tag store.Tag) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	decided := s.evidence.Decided
	unused := !decided.IsZero() && tag.Earliest.After(decided)
	if unused || tag.Earliest.Equal(store.NeverUsed) {
		return 1
	}
	return max(1, s.evidence.First)
}

// Floor polls the register, and returns [Store.Lowest] and the time of the
// decision about it, zero if unknown. It is an error if the register is being
// raised or has regressed.
func (s *Store) Floor(ctx context.Context) (lowest int64, decided time.Time, err error) {
	err = s.poll(ctx, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(1, s.evidence.First), s.evidence.Decided, err
}

// tagLocks serializes the reservations of each tag in this process: they would
// only lose races against each other. The zero value is ready for use.
type tagLocks struct {
	mu   sync.Mutex
	tags map[string]*tagLock
}

type tagLock struct {
	free  chan struct{} // holds a token while the lock is free
	users int
}

// lock waits for the lock of a tag, which the caller holds until it calls done.
func (t *tagLocks) lock(ctx context.Context, tag string) (done func(), err error) {
	t.mu.Lock()
	if t.tags == nil {
		t.tags = make(map[string]*tagLock)
	}
	mine := t.tags[tag]
	if mine == nil {
		mine = &tagLock{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.tags[tag] = mine
	}
	mine.users++
	t.mu.Unlock()
	select {
	case <-mine.free:
		return func() { mine.free <- struct{}{}; t.leave(tag, mine) }, nil
	case <-ctx.Done():
		t.leave(tag, mine)
		return nil, ctx.Err()
	}
}

func (t *tagLocks) leave(tag string, mine *tagLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.tags, tag)
	}
}
