package verify

import (
	"cmp"

	"github.com/tidwall/btree"
)

// idRange is consecutive IDs of a tag. Ranges are disjoint.
type idRange struct {
	tag         int
	first, last int64
	// Sequence in the target of the first of them.
	at uint64
}

// idSet is the IDs of events, by tag.
type idSet struct {
	tags   map[string]int // their numbers
	ranges *btree.BTreeG[idRange]
}

func newIDSet() idSet {
	less := func(a, b idRange) bool { return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.first, b.first)) < 0 }
	return idSet{map[string]int{}, btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// add adds the ID of an event at a place in the target. If it was there before,
// taken is true: by an event at or after another place.
func (s idSet) add(tag string, id int64, at uint64) (behind uint64, taken bool) {
	n, known := s.tags[tag]
	if !known {
		n = len(s.tags)
		s.tags[tag] = n
	}
	r := idRange{tag: n, first: id, last: id, at: at}
	s.ranges.Descend(r, func(below idRange) bool {
		switch {
		case below.tag != n:
		case below.last >= id:
			behind, taken = below.at, true
		case below.last+1 == id:
			r.first, r.at = below.first, below.at
		}
		return false
	})
	if !taken {
		s.ranges.Set(r)
	}
	return behind, taken
}
