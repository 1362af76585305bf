package verify

import "slices"

// span is the sequences first..last of the source, all of which belong to it. Before is the
// sequence in the target before which they should be.
type span struct{ first, last, before uint64 }

// spans are disjoint and ascend.
type spans []span

// add appends a sequence, which is above those before.
func (s *spans) add(seq, before uint64) {
	if n := len(*s); n > 0 && (*s)[n-1].last+1 == seq && (*s)[n-1].before == before {
		(*s)[n-1].last = seq
		return
	}
	*s = append(*s, span{seq, seq, before})
}

// remove takes a sequence out, and reports whether it was there.
func (s *spans) remove(seq uint64) bool {
	i, _ := slices.BinarySearchFunc(*s, seq, func(p span, seq uint64) int {
		if p.last < seq {
			return -1
		}
		return 1
	})
	if i == len(*s) || (*s)[i].first > seq {
		return false
	}
	p := (*s)[i]
	var left []span
	if p.first < seq {
		left = append(left, span{p.first, seq - 1, p.before})
	}
	if seq < p.last {
		left = append(left, span{seq + 1, p.last, p.before})
	}
	*s = slices.Replace(*s, i, i+1, left...)
	return true
}

// count is how many sequences there are.
func (s spans) count() (n uint64) {
	for _, p := range s {
		n += p.last - p.first + 1
	}
	return n
}
