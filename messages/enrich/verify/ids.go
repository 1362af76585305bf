package verify

import (
	"cmp"
	"slices"
	"sort"
)

// idRange is consecutive IDs of a tag.
type idRange struct {
	tag         int
	first, last int64
}

// idSet remembers the IDs of events, each tag's apart from those of others.
type idSet struct {
	tags   map[string]int // their numbers
	newest []int          // for each tag, its range that was added last
	ranges []idRange
}

func newIDSet() *idSet { return &idSet{tags: make(map[string]int)} }

// add remembers an ID.
func (s *idSet) add(tag string, id int64) {
	n, known := s.tags[tag]
	if !known {
		n = len(s.tags)
		s.tags[tag] = n
		s.newest = append(s.newest, 0)
	} else if r := &s.ranges[s.newest[n]]; r.last+1 == id {
		r.last = id
		return
	}
	s.newest[n] = len(s.ranges)
	s.ranges = append(s.ranges, idRange{n, id, id})
}

// sharedIDs are IDs that were added more than once: ranges that ascend.
type sharedIDs struct {
	tags   map[string]int
	ranges []idRange
}

// shared finds IDs that were added more than once. Nothing may be added afterwards.
func (s *idSet) shared() sharedIDs {
	slices.SortFunc(s.ranges, func(a, b idRange) int {
		return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.first, b.first))
	})
	out := sharedIDs{tags: s.tags}
	var highest idRange // of the ranges of this tag so far, the one that reaches furthest
	for i, r := range s.ranges {
		if i > 0 && r.tag == highest.tag && r.first <= highest.last {
			out.add(idRange{r.tag, r.first, min(r.last, highest.last)})
		}
		if i == 0 || r.tag != highest.tag || r.last > highest.last {
			highest = r
		}
	}
	return out
}

// add appends a range, or widens the last one. Ranges come in the order of their beginnings.
func (s *sharedIDs) add(r idRange) {
	if n := len(s.ranges); n > 0 && s.ranges[n-1].tag == r.tag && r.first <= s.ranges[n-1].last {
		s.ranges[n-1].last = max(s.ranges[n-1].last, r.last)
		return
	}
	s.ranges = append(s.ranges, r)
}

// has reports whether an ID of a tag is one of them.
func (s sharedIDs) has(tag string, id int64) bool {
	n, known := s.tags[tag]
	if !known {
		return false
	}
	i := sort.Search(len(s.ranges), func(i int) bool {
		r := s.ranges[i]
		return r.tag > n || r.tag == n && r.last >= id
	})
	return i < len(s.ranges) && s.ranges[i].tag == n && s.ranges[i].first <= id
}

// hasOfAny reports whether an ID of any tag is one of them.
func (s sharedIDs) hasOfAny(id int64) bool {
	return slices.ContainsFunc(s.ranges, func(r idRange) bool { return r.first <= id && id <= r.last })
}

// count is how many there are.
func (s sharedIDs) count() (n uint64) {
	for _, r := range s.ranges {
		n += uint64(r.last-r.first) + 1
	}
	return n
}
