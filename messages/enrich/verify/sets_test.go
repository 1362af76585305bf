package verify

import (
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// TestSharedIDs: exactly the IDs that were added more than once for a tag are shared.
func TestSharedIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type tagID struct {
			tag string
			id  int64
		}
		set, count := newIDSet(), map[tagID]int{}
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			tag, first := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tag"), rapid.Int64Range(1, 40).Draw(t, "first")
			for id := first; id < first+rapid.Int64Range(1, 6).Draw(t, "n"); id++ {
				set.add(tag, id)
				count[tagID{tag, id}]++
			}
		}
		shared, total := set.shared(), uint64(0)
		for _, tag := range []string{"a", "b", "c"} {
			for id := int64(0); id < 60; id++ {
				want := count[tagID{tag, id}] > 1
				if shared.has(tag, id) != want {
					t.Fatalf("%s %d was added %d times, shared: %v", tag, id, count[tagID{tag, id}], !want)
				}
				if want {
					total++
				}
			}
		}
		if shared.count() != total {
			t.Fatalf("%d are shared, counted are %d", total, shared.count())
		}
	})
}

// TestIDsTakeLittleMemory: consecutive IDs of a tag are one range, however tags alternate.
func TestIDsTakeLittleMemory(t *testing.T) {
	set := newIDSet()
	for id := range int64(100_000) {
		set.add("a", 1+id)
		set.add("b", 7+id)
	}
	if n := len(set.ranges); n != 2 {
		t.Errorf("%d ranges, want 2", n)
	}
}

// TestLineBreaks: a client cannot send a header value with a line break that somebody else put
// there. It makes a space of it.
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

// TestSpans: they are a set, whatever is taken out of it.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		want := map[uint64]bool{}
		for seq := uint64(1); seq < 40; seq++ {
			if rapid.Bool().Draw(t, "is in it") {
				s.add(seq, seq/10)
				want[seq] = true
			}
		}
		for range rapid.IntRange(0, 30).Draw(t, "removals") {
			seq := rapid.Uint64Range(0, 41).Draw(t, "sequence")
			if got := s.remove(seq); got != want[seq] {
				t.Fatalf("%d was there: %v, want %v", seq, got, want[seq])
			}
			delete(want, seq)
		}
		if s.count() != uint64(len(want)) {
			t.Fatalf("%v, want %v", s, want)
		}
		for _, p := range s {
			for seq := p.first; seq <= p.last; seq++ {
				if !want[seq] || p.before != seq/10 {
					t.Fatalf("%v, want %v", s, want)
				}
			}
		}
	})
}
