package register

import (
	"fmt"
	"time"

	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/store"
)

// Rule is what [Register.Rewrite] makes of tags: a [Raise] or an [Import].
type Rule interface {
	rule

	// lists returns the tags of a list and those that workers hold, each sorted
	// by name. They may have no entry.
	lists() (list, workers []store.Tag)

	// isAboutAll reports whether the rule is about all tags, those that others
	// write in the meantime included, and not only about those of its list.
	isAboutAll() bool
}

// rule says what becomes of a tag. It does no I/O.
type rule interface {
	// apply returns the entry as it should be, and what that changes. The same
	// entry is left as it is. An empty change is not to be reported.
	apply(p present) (entry, Effect, error)
}

// present is what there is of a tag when a rule is applied.
type present struct {
	name    string
	had     storedEntry
	written time.Time // had; zero if unknown

	row    *store.Tag // of the table; nil if there is none
	listed *store.Tag // in the list of the rule, or nil
	worker *store.Tag // as workers hold it, if the list lacks it, or nil

	table bool  // there is a table, whose rows decide which tags exist
	floor int64 // lowest first ID of new tags
	least int64 // next as the rule had it before another wrote the entry; or 0
}

// next returns the next ID of the tag, 0 if there is neither entry nor row.
func (p present) next() int64 {
	if p.row != nil {
		return max(p.had.Next, p.row.Next)
	}
	return p.had.Next
}

// exists reports whether there is such a tag.
func (p present) exists() bool {
	if p.table {
		return p.row != nil
	}
	return p.had.exists() && !p.had.Removed && p.had.Step > 0
}

// Effect is what a rule does to a tag.
type Effect struct {
	store.Tag // afterwards; Step 0: removed

	Before    int64       // next ID before; 0: neither entry nor row, or for an import: the tag did not exist
	Entry     int64       // next of the entry before; 0: none
	WasOrder  store.Order // of the entry before; "" without one
	Rowless   bool        // the row is missing, and will be created
	Listed    *store.Tag  // in the list of the rule; nil if it is not
	Forgotten bool        // in [Raise.Workers], and put back
}

// change returns what changes if e becomes the entry, and a row is created if
// there should be one.
func (p present) change(e entry, rowless bool) Effect {
	c := Effect{
		Tag:    store.Tag{Name: p.name, Next: e.Next, Order: e.order()},
		Before: p.next(), Entry: p.had.Next, Rowless: rowless, Listed: p.listed,
	}
	if p.had.exists() {
		c.WasOrder = p.had.order()
	}
	switch {
	case p.row != nil:
		c.Next, c.Step = max(e.Next, p.row.Next), max(1, p.row.Step)
	case rowless:
		c.Step = p.listed.Step
	case !p.table && !e.Removed:
		c.Step = e.Step
	}
	return c
}

// Raise is how far all tags are raised, and what is put back of a list.
type Raise struct {
	// Target is the lowest first ID of names without an entry, from the decision
	// on. Tags below the target are raised to it. It has to be that of the mark,
	// see [Mark.Target].
	Target int64

	// By, if it is not 0, is the number of IDs by which all tags are raised
	// instead, and those of a lift its By: a tag by the highest of the numbers
	// for it.
	By    int64
	Lifts []Lift

	// Held has the ends of segments that workers hold, by tag: an entry that is
	// lower was put back.
	Held map[string]int64

	// Since, if set, is when the entries were last seen before they were lost: an
	// entry that was written later may be that of a tag that was made again.
	Since time.Time

	// List has the tags and removed tags of a backup, sorted by name, without
	// repetitions. Entries that the register lacks of it are put back, with order
	// and step, and so are the missing rows of tags that were not removed here. A
	// tag that was strict is strict again, because a loader takes a row for trend
	// if its entry was lost. In front of a table, an entry without a row that the
	// list lacks becomes removed, so that it can be created again. Nil puts
	// nothing back.
	List []store.Tag

	// Workers are tags that workers hold and List lacks, sorted by name: a
	// snapshot of a running server lacks the busiest tags. Those that the register
	// has forgotten are put back, but not if they were deleted by hand, or have no
	// row in the table.
	Workers []store.Tag
}

// Lift raises the tags that match a pattern by a number.
type Lift struct {
	Pattern string // or a tag
	By      int64
}

// Slack is the number of IDs between what is known of earlier grants and a
// raise: what tags may have been granted beyond that, in a burst. At a million
// IDs a second, the rate that targets by time assume at most, it lasts 2.8
// hours.
const Slack int64 = 10_000_000_000

// NextAfter returns the next ID of a tag after the raise. The tag's entry was
// written at that time; zero means unknown.
//
// A tag at or above the target was not begun by time. It may have been granted
// a million IDs a second since its entry was written, as targets assume of all
// tags.
func (r Raise) NextAfter(tag store.Tag, written time.Time) int64 {
	return r.nextAfter(tag, r.Held[tag.Name], written)
}

// nextAfter is NextAfter of a tag that is known to have been granted up to held.
func (r Raise) nextAfter(tag store.Tag, held int64, written time.Time) int64 {
	next := max(held, tag.Next)
	if by := r.by(tag.Name); by > 0 {
		return store.Beyond(next, by)
	}
	switch {
	case next < r.Target:
		return r.Target
	case held > tag.Next && r.Since.IsZero():
		return store.Beyond(held, Slack)
	}
	if !r.Since.IsZero() && written.After(r.Since) {
		written = r.Since
	}
	since := max(0, r.Target-max(0, written.UnixMicro()))
	return store.Beyond(store.Beyond(next, since), Slack)
}

// by returns the number of IDs by which a tag is raised, or 0.
func (r Raise) by(tag string) int64 {
	by := r.By
	for _, l := range r.Lifts {
		if subject.Covers(l.Pattern, tag) {
			by = max(by, l.By)
		}
	}
	return by
}

func (r Raise) lists() (list, workers []store.Tag) { return r.List, r.Workers }

func (r Raise) isAboutAll() bool { return true }

// apply raises a tag. Its entry is written even if it lies above the target: no
// earlier write may fit it afterwards. Only a tag without IDs left stays.
func (r Raise) apply(p present) (entry, Effect, error) {
	tag, held, written := store.Tag{Name: p.name, Next: p.next()}, r.Held[p.name], p.written
	if p.listed != nil && p.listed.Next >= r.Target { // a lower entry may be that of a tag that was made again
		held = max(held, p.listed.Next)
	}
	e, rowless, forgotten := p.had.entry, false, false
	if p.listed != nil {
		rowless = p.table && p.row == nil && p.listed.Step > 0 && !e.Removed
	}
	switch {
	case p.had.exists():
		if p.listed != nil && p.listed.Order == store.Strict {
			e.Order = store.Strict
		}
		if p.listed == nil && r.List != nil && p.table && p.row == nil {
			e.Removed = true
		}
	case p.listed != nil:
		e = p.lost(*p.listed)
		tag.Next, written = max(tag.Next, p.listed.Next, p.floor), r.Since
	case p.had.deleted():
		return e, Effect{}, nil // it grants nothing
	case p.worker != nil && (p.row != nil || !p.table):
		e, forgotten = p.lost(*p.worker), true
		tag.Next, held, written = max(tag.Next, p.floor), max(held, p.worker.Next), r.Since
	case p.row == nil:
		return e, Effect{}, nil
	}
	e.Next = max(p.least, r.nextAfter(tag, held, written))
	c := p.change(e, rowless)
	c.Forgotten = forgotten
	return e, c, nil
}

// lost returns the entry of a tag that the register lacks, as it was, without
// its next ID.
func (p present) lost(tag store.Tag) entry {
	e := entry{Step: tag.Step, Order: stored(tag.Order), Removed: tag.Step == 0}
	if p.table {
		e.Step, e.Removed = 0, tag.Step == 0 && p.row == nil
	}
	return e
}

// Import merges a list of tags, sorted by name, without repetitions: existing
// tags are raised, never lowered, and keep their steps. Others begin no lower
// than the register allows. A tag with step 0 is removed. A name keeps its
// order: another one is a [store.ErrOrder].
type Import struct{ List []store.Tag }

func (i Import) lists() (list, workers []store.Tag) { return i.List, nil }

func (i Import) isAboutAll() bool { return false }

// apply merges a tag. In front of a table, the entry of a new tag is marked as
// removed until there is a row.
func (i Import) apply(p present) (entry, Effect, error) {
	want, e, was := *p.listed, p.had.entry, p.had
	if p.row != nil { // without an entry it is trend
		was.Next = max(1, p.next())
	}
	if err := checkOrder(want, was); err != nil {
		return e, Effect{}, err
	}
	rowless := false
	switch next := max(p.next(), want.Next); {
	case p.had.exists() && (p.exists() || want.Step == 0):
		if want.Next > p.next() {
			e.Next = want.Next
		}
	case p.exists(): // a row without an entry
		e.Next = max(next, p.floor)
	case p.had.deleted() && want.Next == 1:
		return e, Effect{}, fmt.Errorf("%w: deleted by hand; first ID must be above all IDs in use", store.ErrBadTag)
	case p.table:
		e.Next, e.Order, rowless = max(next, p.floor), stored(want.Order), want.Step > 0
		e.Removed = e.Removed || !p.had.exists()
	default:
		e = entry{Next: max(next, p.floor), Step: max(1, want.Step), Order: stored(want.Order), Removed: want.Step == 0}
	}
	c := p.change(e, rowless)
	if !p.exists() {
		c.Before = 0
	}
	return e, c, nil
}
