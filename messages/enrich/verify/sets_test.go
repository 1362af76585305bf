package verify

import (
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// TestSharedIDs: exactly the IDs that a tag already has are taken, and their
// places are returned.
func TestSharedIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type tagID struct {
			tag string
			id  int64
		}
		set, places := newIDSet(), map[tagID]uint64{}
		at := uint64(0)
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			tag, first := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tag"), rapid.Int64Range(1, 40).Draw(t, "first")
			for id := first; id < first+rapid.Int64Range(1, 6).Draw(t, "n"); id++ {
				at++
				place, want := places[tagID{tag, id}]
				if behind, taken := set.add(tag, id, at); taken != want || taken && (behind > place || behind == 0) {
					t.Fatalf("%s %d: taken %v, at or behind %d; want %v, %d", tag, id, taken, behind, want, place)
				}
				if !want {
					places[tagID{tag, id}] = at
				}
			}
		}
	})
}

// TestIDsTakeLittleMemory: consecutive IDs of a tag are one range, even if tags
// alternate.
func TestIDsTakeLittleMemory(t *testing.T) {
	set := newIDSet()
	for id := range int64(100_000) {
		set.add("a", 1+id, 1)
		set.add("b", 7+id, 1)
	}
	if n := set.ranges.Len(); n != 2 {
		t.Errorf("%d ranges, want 2", n)
	}
}

// TestLineBreaks: a client cannot send a header value with a line break, and
// replaces it with a space.
func TestLineBreaks(t *testing.T) {
	came, sent := nats.Header{"X": {"a\rb ", "c"}}, nats.Header{"X": {"a b", "c"}}
	if name, differs := firstDifference(ownHeaders(came), ownHeaders(sent)); differs {
		t.Errorf("%s differs", name)
	}
	sent["X"][0] = "ab"
	if _, differs := firstDifference(ownHeaders(came), ownHeaders(sent)); !differs {
		t.Error("nothing differs")
	}
}
