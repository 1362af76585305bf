package history

import (
	"iter"
	"math/bits"
	"slices"
	"sort"

	"github.com/idworker/idworker/messages"
)

const (
	pageSize = 4096
	words    = pageSize / 64
	maxSpans = words * 8 / 4 // which take as much as the bits
)

// span is a range within a page, both ends included.
type span struct{ first, last uint16 }

// parts are a range, cut into pages.
func parts(r messages.Range) iter.Seq2[int64, span] {
	return func(yield func(int64, span) bool) {
		last := r.Last / pageSize
		for at := r.First / pageSize; at <= last; at++ {
			part := span{0, pageSize - 1}
			if at == r.First/pageSize {
				part.first = uint16(r.First % pageSize)
			}
			if at == last {
				part.last = uint16(r.Last % pageSize)
			}
			if !yield(at, part) {
				return
			}
		}
	}
}

// page is a set of pageSize numbers: the spans, which ascend and do not touch, or the bits.
type page struct {
	spans []span
	bits  *[words]uint64 // nil: the spans count
}

// fullPage is one for all places.
var fullPage = &page{spans: []span{{0, pageSize - 1}}}

func (p *page) isFull() bool { return len(p.spans) == 1 && p.spans[0] == fullPage.spans[0] }

// overlap returns a span of the page that has one of these numbers. A nil page is empty.
func (p *page) overlap(s span) (found span, ok bool) {
	switch {
	case p == nil:
		return span{}, false
	case p.bits != nil:
		for w, mask := range masks(s) {
			if both := p.bits[w] & mask; both != 0 {
				n := uint16(w*64 + bits.TrailingZeros64(both))
				return span{n, n}, true
			}
		}
		return span{}, false
	}
	i := p.search(s)
	if i == len(p.spans) || p.spans[i].first > s.last {
		return span{}, false
	}
	return p.spans[i], true
}

// search is where the first span is that does not end before another one.
func (p *page) search(s span) int {
	return sort.Search(len(p.spans), func(i int) bool { return p.spans[i].last >= s.first })
}

// add adds numbers that are not in the page.
func (p *page) add(s span) {
	if p.bits != nil {
		p.set(s)
		return
	}
	i := p.search(s)
	joinsBefore := i > 0 && p.spans[i-1].last+1 == s.first
	joinsAfter := i < len(p.spans) && p.spans[i].first == s.last+1
	switch {
	case joinsBefore && joinsAfter:
		p.spans[i-1].last = p.spans[i].last
		p.spans = slices.Delete(p.spans, i, i+1)
	case joinsBefore:
		p.spans[i-1].last = s.last
	case joinsAfter:
		p.spans[i].first = s.first
	default:
		p.spans = slices.Insert(p.spans, i, s)
	}
	if len(p.spans) > maxSpans {
		all := p.spans
		p.spans, p.bits = nil, new([words]uint64)
		for _, s := range all {
			p.set(s)
		}
	}
}

// set sets bits. A page that is full is one span again.
func (p *page) set(s span) {
	for w, mask := range masks(s) {
		p.bits[w] |= mask
	}
	if !slices.ContainsFunc(p.bits[:], func(w uint64) bool { return w != ^uint64(0) }) {
		p.spans, p.bits = []span{{0, pageSize - 1}}, nil
	}
}

// masks are the bits of a span in each word that has some.
func masks(s span) iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		from, to := int(s.first), int(s.last)
		for w := from / 64; w <= to/64; w++ {
			mask := ^uint64(0)
			if w == from/64 {
				mask <<= from % 64
			}
			if w == to/64 {
				mask &= ^uint64(0) >> (63 - to%64)
			}
			if !yield(w, mask) {
				return
			}
		}
	}
}
