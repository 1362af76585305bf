package priority_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/internal/priority"
)

// TestEarliestFirst: whatever is added, moved and removed, the first place is
// the earliest that is left.
func TestEarliestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q priority.Queue[int]
		places := make([]priority.Place[int], 20)
		in := map[int]time.Duration{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				i := rapid.IntRange(0, len(places)-1).Draw(t, "place")
				at := time.Duration(rapid.IntRange(0, 30).Draw(t, "at"))
				places[i].Value, in[i] = i, at
				q.Put(&places[i], at)
			},
			"remove": func(t *rapid.T) {
				i := rapid.IntRange(0, len(places)-1).Draw(t, "place")
				if _, queued := in[i]; queued {
					q.Remove(&places[i])
					delete(in, i)
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != len(in) {
					t.Fatalf("%d places, want %d", q.Len(), len(in))
				}
				for i := range places {
					if _, queued := in[i]; places[i].Queued() != queued {
						t.Fatalf("place %d is queued: %t, want %t", i, !queued, queued)
					}
				}
				if len(in) == 0 {
					return
				}
				var times []time.Duration
				for _, at := range in {
					times = append(times, at)
				}
				if first := q.First(); first.At() != slices.Min(times) || in[first.Value] != first.At() {
					t.Fatalf("first is %d at %d, want one of %v", first.Value, first.At(), times)
				}
			},
		})
	})
}
