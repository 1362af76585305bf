package history

import (
	"slices"
	"sort"

	"github.com/idworker/idworker/messages"
)

// Set is a set of IDs, kept as ranges that ascend and do not touch. Its memory grows with the gaps between
// IDs and not with the IDs.
type Set struct {
	blocks [][]messages.Range // none is empty; ascending
	count  int64
}

// blockSize is how many ranges a block has at most: adding moves half of them on average.
const blockSize = 512

// Add adds a range of IDs. If one of them is in the set already, nothing is added, and it returns a range of
// the set that has it.
func (s *Set) Add(r messages.Range) (twice messages.Range, ok bool) {
	if len(s.blocks) == 0 {
		s.blocks, s.count = [][]messages.Range{{r}}, r.Len()
		return messages.Range{}, true
	}
	b := max(0, sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i][0].First > r.First })-1)
	block := s.blocks[b]
	i := sort.Search(len(block), func(i int) bool { return block[i].First > r.First })
	before, after := s.neighbours(b, i)
	if before != nil && before.Last >= r.First {
		return *before, false
	}
	if after != nil && after.First <= r.Last {
		return *after, false
	}
	s.count += r.Len()
	joinsBefore := before != nil && before.Last+1 == r.First
	joinsAfter := after != nil && after.First-1 == r.Last
	switch {
	case joinsBefore && joinsAfter:
		before.Last = after.Last
		s.remove(b, i)
	case joinsBefore:
		before.Last = r.Last
	case joinsAfter:
		after.First = r.First
	default:
		s.insert(b, i, r)
	}
	return messages.Range{}, true
}

// Count is how many IDs are in the set.
func (s *Set) Count() int64 { return s.count }

// Ranges is of how many ranges it consists.
func (s *Set) Ranges() (n int) {
	for _, b := range s.blocks {
		n += len(b)
	}
	return n
}

// Highest is the highest ID, or 0 if there is none.
func (s *Set) Highest() int64 {
	if len(s.blocks) == 0 {
		return 0
	}
	last := s.blocks[len(s.blocks)-1]
	return last[len(last)-1].Last
}

// neighbours are the ranges before and after a place in a block.
func (s *Set) neighbours(b, i int) (before, after *messages.Range) {
	if i > 0 { // otherwise it is the first block: every other begins at or before what is looked for
		before = &s.blocks[b][i-1]
	}
	if i < len(s.blocks[b]) {
		after = &s.blocks[b][i]
	} else if b+1 < len(s.blocks) {
		after = &s.blocks[b+1][0]
	}
	return before, after
}

func (s *Set) insert(b, i int, r messages.Range) {
	block := slices.Insert(s.blocks[b], i, r)
	s.blocks[b] = block
	if half := len(block) / 2; len(block) > blockSize {
		s.blocks[b] = slices.Clone(block[:half])
		s.blocks = slices.Insert(s.blocks, b+1, slices.Clone(block[half:]))
	}
}

// remove removes the range at a place, which may be the first one of the next block.
func (s *Set) remove(b, i int) {
	if i == len(s.blocks[b]) {
		b, i = b+1, 0
	}
	s.blocks[b] = slices.Delete(s.blocks[b], i, i+1)
	if len(s.blocks[b]) == 0 {
		s.blocks = slices.Delete(s.blocks, b, b+1)
	}
}
