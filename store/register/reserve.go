package register

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
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

func checkReserve(tag string, wants []store.Want) error {
	if len(wants) == 0 {
		return fmt.Errorf("%w: no IDs wanted", store.ErrBadTag)
	}
	for _, w := range wants {
		if w.Step < 0 || w.TrendOnly < 0 || w.Waiting < w.TrendOnly || w.Most < 1 {
			return fmt.Errorf("%w: %+v, allowed are a step and waiting IDs of 0 or more, and 1 ID or more", store.ErrBadTag, w)
		}
	}
	return checkName(tag)
}

// Probe implements [store.Reserver]. It reads nothing of the register, because
// Run polls it anyway.
func (s *Register) Probe(ctx context.Context, write bool) error {
	err := s.checkPolled()
	if s.cfg.Table != nil {
		err = s.cfg.Table.Probe(ctx)
	}
	if err != nil || !write {
		return err
	}
	return s.writeAgain(ctx)
}

// writeAgain writes an entry as it is, of any tag that was granted lately: that
// proves that writes succeed. Without such a tag it writes nothing.
func (s *Register) writeAgain(ctx context.Context) error {
	tag, found := s.anyTag()
	if !found {
		return nil
	}
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag, attempt, storedEntry.exists)
		if err == nil && r.exists() {
			_, err = s.write(ctx, p, tag, r)
		}
		if !errors.Is(err, errStale) {
			return s.tagError(tag, err)
		}
	}
}

func (s *Register) anyTag() (tag string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, r := range s.cache {
		if s.live(r) {
			return tag, true
		}
	}
	return "", false
}

// Reserve implements [store.Reserver]. Without a table it writes once, unless
// another process has written since. With a table it reserves a range there,
// then writes once.
func (s *Register) Reserve(ctx context.Context, tag string, wants []store.Want) (granted store.Reservation, err error) {
	if err := checkReserve(tag, wants); err != nil {
		return granted, err
	}
	if err := s.verify(ctx, tag, wants); err != nil {
		return granted, err
	}
	if s.cfg.Table != nil {
		granted, err = s.reserveRow(ctx, tag, wants, false)
		return granted, s.tagError(tag, err)
	}
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag, attempt, s.live)
		if err == nil && !s.live(r) {
			err = store.ErrNoTag
		}
		if err == nil {
			free := store.Segment{First: r.Next, End: math.MaxInt64}
			granted, err = s.grant(ctx, p, tag, r, r.Step, free, wants)
		}
		switch {
		case err == nil:
			return granted, nil
		case !errors.Is(err, errStale):
			return granted, s.tagError(tag, err)
		}
	}
}

// ReserveFirst implements [store.Reserver].
func (s *Register) ReserveFirst(ctx context.Context, tag store.Tag, wants []store.Want) (granted store.Reservation, err error) {
	if err := errors.Join(checkReserve(tag.Name, wants), tag.Check()); err != nil {
		return granted, err
	}
	if err := s.verify(ctx, tag.Name, wants); err != nil {
		return granted, err
	}
	switch {
	case s.isFull():
		return granted, store.ErrNoRoom
	case s.cfg.Table != nil:
		granted, err = s.createRow(ctx, tag, wants)
	default:
		granted, err = s.createNext(ctx, tag, wants)
	}
	return granted, s.tagError(tag.Name, err)
}

func (s *Register) isFull() (full bool) {
	s.judge(func(g *guard.Guard) { full = g.Full() })
	return full
}

// grant records numbers from the beginning of a free range as granted. It
// writes e over the revision that was read. The sizes and the granted order are
// those of the entry that it writes.
func (s *Register) grant(ctx context.Context, p guard.Permit, tag string, e storedEntry, step int64, free store.Segment, wants []store.Want) (store.Reservation, error) {
	granted, err := free.Divide(e.order(), step, wants)
	if err != nil {
		return granted, err
	}
	e.Next = granted.End()
	granted.Line, err = s.write(ctx, p, tag, e)
	if errors.Is(err, errStale) {
		return store.Reservation{}, err
	}
	if err != nil {
		s.burnt.Add(1)
		return store.Reservation{}, err
	}
	s.granted.Add(1)
	return granted, nil
}

// createNext creates the entry of a tag, on the condition that it has none.
// Over the entry of a removed tag it continues from there.
func (s *Register) createNext(ctx context.Context, tag store.Tag, wants []store.Want) (store.Reservation, error) {
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag.Name, attempt, func(r storedEntry) bool { return !s.live(r) })
		if err == nil {
			err = s.mayCreate(tag, r)
		}
		if err != nil {
			return store.Reservation{}, err
		}
		e := storedEntry{entry{Step: tag.Step, Order: stored(tag.Order)}, r.revision}
		free := store.Segment{First: max(tag.Next, r.Next, s.lowest(tag)), End: math.MaxInt64}
		granted, err := s.grant(ctx, p, tag.Name, e, tag.Step, free, wants)
		if !errors.Is(err, errStale) {
			return granted, err
		}
	}
}

// look returns a permit, and the entry of a tag read after that permit. The
// first attempt returns the cached entry if it is good: a stale entry only
// makes the write fail. Otherwise it reads the leader's.
func (s *Register) look(ctx context.Context, tag string, attempt int, good func(storedEntry) bool) (p guard.Permit, r storedEntry, err error) {
	if attempt > 1 {
		if err := backOff(ctx, attempt); err != nil {
			return p, r, err
		}
	}
	if p, err = s.permit(ctx); err != nil {
		return p, r, err
	}
	s.mu.Lock()
	r = s.cache[tag]
	s.mu.Unlock()
	if attempt == 0 && good(r) {
		return p, r, nil
	}
	r, err = s.read(ctx, tag, store.Claim{})
	return p, r, err
}

// mayCreate reports whether a tag may be created automatically over its entry.
func (s *Register) mayCreate(tag store.Tag, r storedEntry) error {
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
func (s *Register) Lowest() int64 { return s.lowest(store.Tag{}) }

// lowest returns the lowest first ID of a tag without an entry, see
// [guard.Guard.Lowest].
func (s *Register) lowest(tag store.Tag) (first int64) {
	s.judge(func(g *guard.Guard) { first = g.Lowest(tag.Earliest) })
	return first
}

// Floor polls the register, and returns [Register.Lowest] and the time of the
// decision about it, zero if unknown. It is an error if the register is being
// raised or has regressed.
func (s *Register) Floor(ctx context.Context) (lowest int64, decided time.Time, err error) {
	err = s.poll(ctx, true)
	s.judge(func(g *guard.Guard) { lowest, decided = g.Lowest(time.Time{}), g.Record().Decided })
	return lowest, decided, err
}
