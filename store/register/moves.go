package register

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/idworker/idworker/store"
)

// Bounds on the evidence of another program.
const (
	moveAge       = time.Hour
	maxMoves      = 4  // gaps of a tag that are kept
	maxMovedTags  = 4  // in the figures
	maxDiscarded  = 32 // ranges
	maxMovesCache = 1000
)

// moves collects how rows moved: backwards, and the evidence of [store.Moves]. The
// zero value is ready for use, once since is set.
type moves struct {
	mu        sync.Mutex
	since     time.Time
	skipped   map[string][]store.Move
	discarded []store.Move
	back      map[string]bool // tags whose rows went back
	backs     int64           // times that they did
}

// wentBack notes that a row proved to be below an earlier grant, and reports
// whether it is the first time for the tag.
func (m *moves) wentBack(tag string) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.back == nil {
		m.back = make(map[string]bool)
	}
	first, m.back[tag] = !m.back[tag], true
	m.backs++
	return first
}

// rowsBack returns how often rows went back.
func (m *moves) rowsBack() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.backs
}

// skip notes that a row was moved by a range since the latest grant.
func (m *moves) skip(tag string, first, end int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.skipped == nil {
		m.skipped = make(map[string][]store.Move)
	}
	if len(m.skipped) >= maxMovesCache {
		maps.DeleteFunc(m.skipped, func(_ string, all []store.Move) bool { return now.Sub(all[len(all)-1].At) > moveAge })
	}
	all, known := m.skipped[tag]
	if !known && len(m.skipped) >= maxMovesCache {
		return
	}
	all = append(all, store.Move{Tag: tag, First: first, End: end, At: now})
	m.skipped[tag] = all[max(0, len(all)-maxMoves):]
}

// discard notes that this process has taken a range, or may have, and did not
// grant it.
func (m *moves) discard(tag string, first, end int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.discarded) == maxDiscarded {
		m.since = m.discarded[0].At
		m.discarded = m.discarded[1:]
	}
	m.discarded = append(m.discarded, store.Move{Tag: tag, First: first, End: end, At: time.Now()})
}

// discardUnknown is discard for a range that the table did not return.
func (m *moves) discardUnknown(tag string) { m.discard(tag, 1, math.MaxInt64) }

// figures returns the evidence of the last hour, with the gaps of those tags that
// have many.
func (m *moves) figures() *store.Moves {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	old := func(move store.Move) bool { return now.Sub(move.At) > moveAge }
	f := &store.Moves{Since: m.since, Skipped: []store.Move{}, Discarded: slices.DeleteFunc(slices.Clone(m.discarded), old)}
	tags := 0
	for _, tag := range slices.Sorted(maps.Keys(m.skipped)) {
		if all := slices.DeleteFunc(slices.Clone(m.skipped[tag]), old); len(all) >= store.MinMoves && tags < maxMovedTags {
			f.Skipped = append(f.Skipped, all...)
			tags++
		}
	}
	return f
}
