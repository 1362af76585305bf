package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
)

// update replaces the entry of a tag with the result of change. If change
// returns an error, or the same entry, nothing is written.
func (s *Register) update(ctx context.Context, tag string, change func(storedEntry) (entry, error)) error {
	if err := checkName(tag); err != nil {
		return err
	}
	return s.tagError(tag, s.replace(ctx, tag, change))
}

// replace is update without the name check and without the tag in errors.
func (s *Register) replace(ctx context.Context, tag string, change func(storedEntry) (entry, error)) error {
	for attempt := 0; ; attempt++ {
		p, r, err := s.look(ctx, tag, attempt, func(storedEntry) bool { return false })
		if err != nil {
			return err
		}
		e, err := change(r)
		if err == nil && e != r.entry {
			_, err = s.write(ctx, p, tag, storedEntry{e, r.revision})
		}
		if !errors.Is(err, errStale) {
			return err
		}
	}
}

// Lookup returns the step and the order of a tag; Next is 0. They may come from
// this process's cache: a step may be a minute old, or as old as the last grant.
// A row without an entry is trend.
//
// Errors: store.ErrNoTag, also for a removed tag; store.ErrCorrupt,
// store.ErrSetup, store.ErrRegressed, and store.ErrBadTag for a malformed tag.
func (s *Register) Lookup(ctx context.Context, tag string) (store.Tag, error) {
	if err := checkName(tag); err != nil {
		return store.Tag{}, err
	}
	var r storedEntry
	var step int64
	var err error
	if s.cfg.Table != nil {
		r, step, err = s.lookUpRow(ctx, tag)
	} else if _, r, err = s.look(ctx, tag, 0, s.live); err == nil && !s.live(r) {
		err = store.ErrNoTag
	} else {
		step = r.Step
	}
	if err != nil {
		return store.Tag{}, s.tagError(tag, err)
	}
	return store.Tag{Name: tag, Step: step, Order: r.order()}, nil
}

// CreateTag adds a tag. In front of a table, it writes the entry first, then the
// row, then clears the removed mark.
//
// Errors: store.ErrTagExists, also from a second call after a lost reply, if the
// first one created the tag; store.ErrBadTag, store.ErrSetup,
// store.ErrRegressed; store.ErrOrder, if a tag of that name had the other order;
// and store.ErrBelow, if a tag of that name was removed, or may have been lost
// (see [store.Tag].Earliest), and issued more.
func (s *Register) CreateTag(ctx context.Context, tag store.Tag) error {
	if err := errors.Join(checkName(tag.Name), tag.Check()); err != nil {
		return err
	}
	if s.cfg.Table == nil {
		return s.update(ctx, tag.Name, func(r storedEntry) (entry, error) {
			return entry{Next: tag.Next, Step: tag.Step, Order: stored(tag.Order)}, s.checkCreate(tag, r)
		})
	}
	free := func() error {
		_, err := s.cfg.Table.Find(ctx, tag.Name)
		if errors.Is(err, store.ErrNoTag) {
			return nil
		}
		return cmp.Or(err, store.ErrTagExists)
	}
	err := free()
	if err == nil {
		err = s.announce(ctx, tag, func(r storedEntry) error { return s.checkCreate(tag, r) })
		if errors.Is(err, store.ErrBadTag) { // or was it created by now?
			err = cmp.Or(free(), err)
		}
	}
	if err != nil {
		return s.tagError(tag.Name, err)
	}
	if err := s.cfg.Table.CreateTag(ctx, tag); err != nil {
		return err
	}
	return s.update(ctx, tag.Name, func(r storedEntry) (entry, error) {
		r.Removed = false
		return r.entry, nil
	})
}

// checkCreate reports whether a tag may be created over its entry.
func (s *Register) checkCreate(tag store.Tag, r storedEntry) error {
	floor := max(r.Next, s.lowest(tag))
	switch {
	case s.live(r) && s.cfg.Table == nil:
		return store.ErrTagExists
	case checkOrder(tag, r) != nil:
		return checkOrder(tag, r)
	case r.deleted() && (tag.Next == 1 || !tag.Earliest.IsZero()): // no choice of a first ID
		return fmt.Errorf("%w: deleted by hand; first ID must be above all IDs in use", store.ErrBadTag)
	case tag.Next < floor:
		return &store.BelowError{Tag: tag.Name, First: tag.Next, Floor: floor}
	case r.revision == 0 && floor > 1 && tag.Next > floor: // as before the loss, perhaps
		return fmt.Errorf("%w: first ID %d: a lost tag of that name may have issued IDs above; allowed is %d, or any if the name was never used", store.ErrBadTag, tag.Next, floor)
	}
	return nil
}

// SetStep changes the configured step of a tag. Issued IDs are not affected.
// Errors: store.ErrNoTag, store.ErrBadTag, store.ErrCorrupt, store.ErrSetup.
func (s *Register) SetStep(ctx context.Context, tag string, step int64) error {
	if step < 1 {
		return fmt.Errorf("%w: step %d, allowed is 1 or more", store.ErrBadTag, step)
	}
	if s.cfg.Table != nil {
		defer s.steps.forget(tag)
		return s.missing(ctx, tag, s.cfg.Table.SetStep(ctx, tag, step))
	}
	return s.update(ctx, tag, func(r storedEntry) (entry, error) {
		if !s.live(r) {
			return entry{}, store.ErrNoTag
		}
		r.Step = step
		return r.entry, nil
	})
}

// Raise makes next the first unissued ID, if the tag's is lower, and otherwise
// changes nothing: a tag is never lowered. The register is raised before the
// table. From then on, a lower range that a loader has reserved but not granted
// is discarded. Errors: store.ErrNoTag, store.ErrBadTag for a next below 1,
// store.ErrCorrupt, store.ErrSetup.
func (s *Register) Raise(ctx context.Context, tag string, next int64) error {
	if next < 1 {
		return fmt.Errorf("%w: first ID %d, allowed is 1 or more", store.ErrBadTag, next)
	}
	if s.cfg.Table != nil {
		// Does the row exist, and can it count?
		if err := s.cfg.Table.Raise(ctx, tag, 1); err != nil {
			return s.missing(ctx, tag, err)
		}
	}
	err := s.update(ctx, tag, func(r storedEntry) (entry, error) {
		if s.cfg.Table == nil && !s.live(r) {
			return entry{}, store.ErrNoTag
		}
		r.Next = max(r.Next, next)
		return r.entry, nil
	})
	if err == nil && s.cfg.Table != nil {
		err = s.cfg.Table.Raise(ctx, tag, next)
	}
	return err
}

// RemoveTag removes a tag, also if its row is missing. Its order and its next ID
// stay stored, see [Register.CreateTag]. The row's max_id goes into the register
// before the row is deleted, and only a row that is not above it is deleted:
// ranges of Leaf's servers are recorded nowhere else.
//
// Errors: store.ErrNoTag, also from a second call after a lost reply;
// store.ErrBadTag, store.ErrCorrupt, store.ErrSetup.
func (s *Register) RemoveTag(ctx context.Context, tag string) error {
	var row store.Tag
	for attempt := 0; ; attempt++ {
		before, hasRow := row.Next, false
		if s.cfg.Table != nil {
			var err error
			row, err = s.cfg.Table.Find(ctx, tag)
			if err != nil && !errors.Is(err, store.ErrNoTag) {
				return err
			}
			hasRow = err == nil
			s.steps.forget(tag)
		}
		next := max(1, row.Next)
		if attempt > 0 { // others may reserve as much again until the row is deleted
			next = store.Beyond(next, max(0, next-before))
		}
		err := s.update(ctx, tag, func(r storedEntry) (entry, error) {
			if !hasRow && !s.live(r) {
				return entry{}, store.ErrNoTag
			}
			next = max(next, r.Next)
			r.Next, r.Removed = next, true
			return r.entry, nil
		})
		if err == nil && hasRow {
			err = s.cfg.Table.RemoveTag(ctx, tag, next)
		}
		if !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
}

// AllTags lists the tags, the names that may be created again, and the rows whose
// names are not those of tags, each in no particular order, as of a moment after
// the call began. A name may be created again after its tag was removed, or if its
// row is missing: its Next is the lowest first ID that it may have then, and its
// Step is 0. Next of a tag is not below the last grant. If entries are unreadable,
// AllTags returns the readable tags, and an error that wraps store.ErrCorrupt, with a
// [store.EntryError] for each unreadable entry that has a name.
func (s *Register) AllTags(ctx context.Context) (tags, removed, others []store.Tag, err error) {
	// Before the register: a row created in between does not look removed.
	rows, others, corrupt := s.listRows(ctx)
	if corrupt != nil && !errors.Is(corrupt, store.ErrCorrupt) {
		return nil, nil, nil, corrupt
	}
	entries, err := s.list(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	errs := []error{corrupt}
	for _, row := range rows {
		e := entries[row.Name]
		if e.err != nil {
			continue
		}
		row.Next, row.Order = max(row.Next, e.Next), e.order()
		tags = append(tags, row)
		delete(entries, row.Name)
	}
	for name, e := range entries {
		switch {
		case e.err != nil:
			errs = append(errs, &store.EntryError{Tag: name, Err: s.tagError(name, e.err)})
		case !e.exists():
		case s.cfg.Table == nil && s.live(e.storedEntry):
			tags = append(tags, store.Tag{Name: name, Step: e.Step, Next: e.Next, Order: e.order()})
		default:
			removed = append(removed, store.Tag{Name: name, Next: e.Next, Order: e.order()})
		}
	}
	return tags, removed, others, errors.Join(errs...)
}

// Count implements [store.Reserver].
func (s *Register) Count(ctx context.Context, patterns ...string) (int64, error) {
	return kv.Count(ctx, s.cfg.JetStream, BucketName(s.cfg.Prefix), patterns...)
}
