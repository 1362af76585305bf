package history

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/tier"
)

// TestSetIsASet compares a set with one that has an entry for each ID: few and many IDs in a page, until pages are full.
func TestSetIsASet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		var s Set
		plain := make(map[int64]bool)
		for range 8000 {
			first := 1 + random.Int64N(9000)
			r := messages.Range{First: first, Last: first + random.Int64N(1+int64(round*round))}
			fresh := true
			for id := r.First; id <= r.Last; id++ {
				fresh = fresh && !plain[id]
			}
			twice, ok := s.Add(r)
			if ok != fresh {
				t.Fatalf("Add(%v) = %v %v, want %v", r, twice, ok, fresh)
			}
			if !ok && (twice.Last < r.First || twice.First > r.Last || !plain[twice.First] || !plain[twice.Last]) {
				t.Fatalf("Add(%v) = %v: does not overlap, or is not in the set", r, twice)
			}
			for id := r.First; ok && id <= r.Last; id++ {
				plain[id] = true
			}
		}
		gaps, highest := 0, int64(0)
		for id := range plain {
			highest = max(highest, id)
			if !plain[id-1] {
				gaps++
			}
		}
		if s.Count() != int64(len(plain)) || s.Ranges() != gaps || s.Highest() != highest {
			t.Errorf("%d IDs in %d ranges, the highest %d; want %d, %d and %d", s.Count(), s.Ranges(), s.Highest(), len(plain), gaps, highest)
		}
	}
}

func TestSetAtTheEnds(t *testing.T) {
	var s Set
	for _, c := range []struct {
		r  messages.Range
		ok bool
	}{
		{ids(1, 1), true}, {ids(math.MaxInt64-1, math.MaxInt64), true}, {ids(math.MaxInt64, math.MaxInt64), false},
		{ids(1, 4095), false}, {ids(2, 4095), true}, {ids(4096, 8191), true}, {ids(4095, 4096), false}, {ids(8191, 8192), false},
	} {
		if _, ok := s.Add(c.r); ok != c.ok {
			t.Errorf("Add(%v): %v, want %v", c.r, ok, c.ok)
		}
	}
	if s.Ranges() != 2 {
		t.Errorf("%d ranges, want 2", s.Ranges())
	}
}

// TestSetIsSmall: IDs that come in any order of requests, and those between which others get theirs.
func TestSetIsSmall(t *testing.T) {
	count := int64(tier.Pick(400_000, 100_000_000))
	for name, c := range map[string]struct {
		every int64   // of the IDs is in the set
		bytes float64 // for each ID, at most
	}{
		"all": {1, tier.Pick(0.05, 0.015)}, "every other": {2, 0.4}, "every tenth": {10, 2}, "every hundredth": {100, 9},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			s := new(Set)
			for i := range count {
				first := 1 + (i^7)*c.every // eight callers, none in order
				if _, ok := s.Add(messages.Range{First: first, Last: first}); !ok {
					t.Fatalf("%d is in the set", first)
				}
			}
			each := float64(heap()-before) / float64(s.Count())
			t.Logf("%d IDs, %.2f bytes each", s.Count(), each)
			if each > c.bytes {
				t.Errorf("%.2f bytes for each ID, want %v at most", each, c.bytes)
			}
			runtime.KeepAlive(s)
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
