package history

import (
	"math/rand/v2"
	"testing"

	"github.com/idworker/idworker/messages"
)

// TestSetIsASet compares a set with one that has an entry for each ID.
func TestSetIsASet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		var s Set
		plain := make(map[int64]bool)
		for range 8000 {
			first := 1 + random.Int64N(40_000)
			r := messages.Range{First: first, Last: first + random.Int64N(1+int64(round))}
			fresh := true
			for id := r.First; id <= r.Last; id++ {
				fresh = fresh && !plain[id]
			}
			twice, ok := s.Add(r)
			if ok != fresh {
				t.Fatalf("Add(%v) = %v %v, want %v", r, twice, ok, fresh)
			}
			if !ok && (twice.Last < r.First || twice.First > r.Last) {
				t.Fatalf("Add(%v) = %v: does not overlap", r, twice)
			}
			for id := r.First; ok && id <= r.Last; id++ {
				plain[id] = true
			}
		}
		if s.Count() != int64(len(plain)) {
			t.Errorf("Count() = %d, want %d", s.Count(), len(plain))
		}
		gaps := 0
		for id := range plain {
			if !plain[id-1] {
				gaps++
			}
		}
		if s.Ranges() != gaps {
			t.Errorf("%d ranges, want %d", s.Ranges(), gaps)
		}
	}
}
