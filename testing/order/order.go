package order

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/idworker/idworker/internal/history"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/store"
)

// kept bounds the faults that are reported.
const kept = 10

// Check returns the first faults of a history of strict tags.
func Check(calls []history.Call) error {
	checker := history.NewChecker(snowflake.Layout{})
	var wrong []error
	byReceived := func(a, b history.Call) int { return cmp.Compare(a.Received, b.Received) }
	for _, c := range slices.SortedStableFunc(slices.Values(calls), byReceived) {
		if c.Received < c.Sent {
			return fmt.Errorf("NOT A HISTORY: %v was received before it was sent", &c)
		}
		wrong = append(wrong, checker.Check(&c, c.Tag)...)
	}
	return errors.Join(wrong[:min(kept, len(wrong))]...)
}

// Ledger records which IDs were handed out. The zero value is empty.
type Ledger struct {
	mu      sync.Mutex
	checker *history.Checker
	wrong   []error
	len     int
	tags    map[string]issued
}

// issued are the IDs of a tag.
type issued struct{ sum, end int64 }

// Add records IDs of a tag, n of which were requested.
func (l *Ledger) Add(tag string, n int64, ranges ...messages.Range) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.checker == nil {
		l.checker, l.tags = history.NewChecker(snowflake.Layout{}), make(map[string]issued)
	}
	if wrong := l.checker.Check(&history.Call{Kind: history.Batch, Tag: tag, Count: n, Ranges: ranges}, ""); len(l.wrong) < kept {
		l.wrong = append(l.wrong, wrong...)
	}
	had := l.tags[tag]
	for _, r := range ranges {
		had = issued{had.sum + r.Len(), max(had.end, r.Last+1)}
	}
	l.tags[tag] = had
	l.len++
}

// AddSegment records a segment that was reserved with a step.
func (l *Ledger) AddSegment(tag string, step int64, s store.Segment) {
	l.Add(tag, step, messages.Range{First: s.First, Last: s.End - 1})
}

// Len is how often IDs were added.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.len
}

// Check fails the test for IDs that came twice, or not as requested.
func (l *Ledger) Check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wrong := range l.wrong {
		t.Error(wrong)
	}
}

// Forgive forgets faults so far, which a test expects.
func (l *Ledger) Forgive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = nil
}

// End is the number above the tag's highest ID, or 0 if it has none.
func (l *Ledger) End(tag string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tags[tag].end
}

// Sum is the number of the tag's IDs.
func (l *Ledger) Sum(tag string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tags[tag].sum
}
