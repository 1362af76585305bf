package register

import (
	"time"

	"github.com/idworker/idworker/store"
)

// Rule is what [Register.Rewrite] makes of tags: a [Raise] or an [Import].
type Rule interface{ rule() }

// Change is what a rule does to a tag.
type Change struct {
	store.Tag // afterwards; Step 0: removed

	Before    int64       // next ID before; 0: neither entry nor row, or for an import: the tag did not exist
	Entry     int64       // next of the entry before; 0: none
	WasOrder  store.Order // of the entry before; "" without one
	Rowless   bool        // the row is missing, and will be created
	Listed    *store.Tag  // in the list of the rule; nil if it is not
	Forgotten bool        // in [Raise.Workers], and put back
}

// Raise is how far all tags are raised, and what is put back of a list.
type Raise struct {
	// Target is the lowest first ID of names without an entry, from the decision
	// on. Tags below the target are raised to it. It has to be that of the mark,
	// see [Mark.Target].
	Target int64

	// By, if it is not 0, is the number of IDs by which all tags are raised
	// instead. Tags that match a pattern of Lifts are raised by the highest
	// number of those.
	By    int64
	Lifts []Lift

	// Held has the ends of segments that workers hold, by tag: an entry that is
	// lower was put back.
	Held map[string]int64

	// Since, if set, is when the entries were last seen before they were lost: an
	// entry that was written later may be that of a tag that was made again.
	Since time.Time

	// List has the tags and removed tags of a backup, sorted by name, without
	// repetitions. Nil puts nothing back.
	List []store.Tag

	// Workers are tags that workers hold and List lacks, sorted by name. Those
	// that the register has forgotten are put back.
	Workers []store.Tag
}

// Lift raises the tags that match a pattern by a number.
type Lift struct {
	Pattern string // or a tag
	By      int64
}

// NextAfter returns the next ID of a tag after the raise. The tag's entry was
// written at that time; zero means unknown.
func (r Raise) NextAfter(tag store.Tag, written time.Time) int64 {
	old := OldRaise{Target: r.Target, Held: r.Held, Since: r.Since}
	return old.Lift(tag, written)
}

func (r Raise) rule() {}

// Import merges a list of tags, sorted by name, without repetitions: existing
// tags are raised, never lowered, and keep their steps. Others begin no lower
// than the register allows. A tag with step 0 is removed. A name keeps its
// order: another one is a [store.ErrOrder].
type Import struct{ List []store.Tag }

func (i Import) rule() {}
