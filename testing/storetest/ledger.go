package storetest

import (
	"cmp"
	"slices"
	"sync"
	"testing"

	"github.com/idworker/idworker/store"
)

// Ledger records which segments were handed out, from any number of goroutines,
// to find out whether an ID was handed out twice. The zero value is empty.
type Ledger struct {
	mu    sync.Mutex
	byTag map[string][]store.Segment
	wrong []string // faulty segments
	n     int
}

// Add records a segment that Reserve(tag, step) returned with a nil error.
func (l *Ledger) Add(tag string, step int64, seg store.Segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byTag == nil {
		l.byTag = make(map[string][]store.Segment)
	}
	if !seg.Valid() || seg.Len() != step {
		l.wrong = append(l.wrong, tag+" "+seg.String())
	}
	l.byTag[tag] = append(l.byTag[tag], seg)
	l.n++
}

// Len is the number of segments recorded.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Check fails the test for every segment that is out of bounds, not of the
// requested length, or shares an ID with another segment of its tag.
func (l *Ledger) Check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.wrong {
		t.Errorf("not a segment of the step asked for: %s", w)
	}
	for tag, segs := range l.byTag {
		sorted := inOrder(segs)
		for i := 1; i < len(sorted); i++ {
			if sorted[i].First < sorted[i-1].End {
				t.Errorf("DUPLICATE IDs of %s: %v and %v", tag, sorted[i-1], sorted[i])
			}
		}
	}
}

// End is the highest End of the tag's segments, or 0 if it has none.
func (l *Ledger) End(tag string) (end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seg := range l.byTag[tag] {
		end = max(end, seg.End)
	}
	return end
}

// Sum is the number of IDs in the tag's segments.
func (l *Ledger) Sum(tag string) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seg := range l.byTag[tag] {
		n += seg.Len()
	}
	return n
}

// inOrder sorts a copy by First.
func inOrder(segs []store.Segment) []store.Segment {
	sorted := slices.Clone(segs)
	slices.SortFunc(sorted, func(a, b store.Segment) int { return cmp.Compare(a.First, b.First) })
	return sorted
}
