package history

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/testing/tier"
)

func answer(kind CallKind, tag string, sent, received time.Duration, ranges ...messages.Range) *Call {
	c := &Call{Kind: kind, Tag: tag, Sent: sent, Received: received, Ranges: ranges}
	for _, r := range ranges {
		c.Count += r.Len()
	}
	return c
}

func ids(first, last int64) messages.Range { return messages.Range{First: first, Last: last} }

// TestDuplicatesAgreeWithPlainSet compares the checker with a plain set: few
// and many IDs, single and in ranges, until the space is full.
func TestDuplicatesAgreeWithPlainSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		checker := NewChecker(snowflake.Layout{})
		plain := make(map[int64]bool)
		at := []int64{1, 1<<32 - 50_000, math.MaxInt64 - 110_000}[round%3]
		for range 4000 {
			first := at + random.Int64N(100_000)
			r := ids(first, first+random.Int64N(1+int64(round*round)))
			twice := false
			for id := r.First; id <= r.Last; id++ {
				twice = twice || plain[id]
				plain[id] = true
			}
			found := checker.Check(answer(Batch, "a", 0, 1, r), "")
			if len(found) > 0 != twice || twice && !errors.Is(found[0], ErrDuplicate) {
				t.Fatalf("of %v: %v, want a duplicate: %v", r, found, twice)
			}
		}
	}
}

func TestDuplicatesAtTheEnds(t *testing.T) {
	const last = math.MaxInt64
	checker := NewChecker(snowflake.Layout{})
	for _, c := range []struct {
		r     messages.Range
		first int64 // first duplicate; 0: none
	}{
		{ids(1, 1), 0}, {ids(last-1, last), 0}, {ids(last, last), last}, {ids(1, 65535), 1}, {ids(65535, 65535), 65535},
		{ids(65536, 1<<32-1), 0}, {ids(1<<32-1, 1<<32), 1<<32 - 1}, {ids(1<<32, 1<<33), 1 << 32}, {ids(1<<33, 1<<33+1), 1 << 33},
	} {
		if id, twice := checker.issue("a", c.r); twice != (c.first > 0) || twice && id != c.first {
			t.Errorf("of %v: %d %v, want %d", c.r, id, twice, c.first)
		}
	}
}

// TestMemoryIsBounded checks the numbers of docs/scaling.md, for callers that
// get all IDs or some of them, in an order of no caller.
func TestMemoryIsBounded(t *testing.T) {
	count := int64(tier.Pick(400_000, 100_000_000))
	for every, most := range map[int64]float64{1: 0.2, 2: 0.4, 10: 1.5, 100: 4} { // bytes for each ID
		before := heap()
		checker := NewChecker(snowflake.Layout{})
		for i := range count {
			id := 1 + (i^7)*every
			if _, twice := checker.issue("a", ids(id, id)); twice {
				t.Fatalf("%d was there", id)
			}
		}
		if each := float64(heap()-before) / float64(count); each > most {
			t.Errorf("one in %d: %.2f bytes for each ID, want %v at most", every, each, most)
		}
		runtime.KeepAlive(checker)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestPartlyBelow: the lowest ID of a reply has to be above the IDs before it.
func TestPartlyBelow(t *testing.T) {
	checker := NewChecker(snowflake.Layout{})
	for _, c := range []struct {
		call *Call
		ok   bool
	}{
		{answer(Strict, "doc", 0, 1, ids(10, 12)), true},
		{answer(Strict, "doc", 2, 3, ids(5, 6), ids(20, 21)), false},
		{answer(Strict, "doc", 2, 4, ids(15, 16)), true}, // sent before 21 was there
		{answer(Strict, "doc", 4, 5, ids(19, 30)), false},
	} {
		if err := checker.checkOrder("doc", c.call); c.ok != (err == nil) {
			t.Errorf("%v: %v", c.call, err)
		}
	}
}

// TestOldAnswersAreForgotten, except the latest of them, with which later
// replies are still compared.
func TestOldAnswersAreForgotten(t *testing.T) {
	checker := NewChecker(snowflake.Layout{})
	now := time.Duration(0)
	for id := int64(1); id <= 1000; id++ {
		now += time.Second
		if err := checker.checkOrder("doc", answer(Strict, "doc", now-1, now, ids(id, id))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(checker.highest["doc"]); n > 130 {
		t.Errorf("%d answers are kept, want 130 at most", n)
	}
	if err := checker.checkOrder("doc", answer(Strict, "doc", now+1, now+time.Hour, ids(999, 999))); err == nil {
		t.Error("999 after 1000 passes")
	}
	if err := checker.checkOrder("doc", answer(Strict, "doc", now+1, now+2*time.Hour, ids(998, 998))); err == nil {
		t.Error("998 after 1000 passes, an hour later")
	}
}

// TestHistoryIsText, a line for each call, in a new file.
func TestHistoryIsText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	w, err := Create(name, snowflake.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	w.Write(answer(Strict, "doc.a", 5, 7, ids(1, 3), ids(9, 9)))
	w.Write(answer(Snowflake, "", 6, 8, ids(1<<40, 1<<40)))
	w.Write(&Call{Kind: Single, Tag: "order", Sent: 1, Received: 9, Count: 1, Err: "no ID\nbefore the deadline"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(name, snowflake.Layout{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("created again: %v, want %v", err, os.ErrExist)
	}
	got, err := os.ReadFile(name)
	want := "# idworker history, layout unknown\nstrict doc.a 5 7 4 1-3,9\nsnowflake - 6 8 1 1099511627776\nsingle order 1 9 1 - no ID before the deadline\n"
	if err != nil || string(got) != want {
		t.Errorf("%v; it has\n%swant\n%s", err, got, want)
	}
}
