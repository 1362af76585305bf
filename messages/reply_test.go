package messages_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/testing/vectors"
)

func TestAppendRangeAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		buf = messages.AppendRange(buf[:0], messages.Range{First: math.MaxInt64 - 1, Last: math.MaxInt64})
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestIDsEndAtTheLastOneThereIs(t *testing.T) {
	ranges := []messages.Range{{1, 2}, {math.MaxInt64 - 1, math.MaxInt64}}
	if got, want := slices.Collect(messages.IDs(ranges)), []int64{1, 2, math.MaxInt64 - 1, math.MaxInt64}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for range messages.IDs(ranges) { // a caller may end them
		break
	}
	for id := range messages.IDs(nil) {
		t.Errorf("%d out of nothing", id)
	}
}

// replies draws ascending ranges, some of which are neighbours, and returns
// their number of IDs.
func replies(t *rapid.T) (ranges []messages.Range, n int64) {
	next := rapid.Int64Range(1, math.MaxInt64-1<<20).Draw(t, "first")
	for range rapid.IntRange(1, 8).Draw(t, "ranges") {
		r := messages.Range{First: next, Last: next + rapid.Int64Range(0, 5000).Draw(t, "more")}
		ranges = append(ranges, r)
		n += r.Len()
		next = r.Last + rapid.Int64Range(1, 5000).Draw(t, "to the next")
	}
	return ranges, n
}

func encodeRanges(ranges []messages.Range) (data []byte) {
	for _, r := range ranges {
		data = messages.AppendRange(data, r)
	}
	return data
}

func TestAnyReplyThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges, n := replies(t)
		data := encodeRanges(ranges)
		got, err := messages.DecodeRanges(data, n)
		if err != nil || !slices.Equal(got, ranges) {
			t.Fatalf("%v became %q, and that %v, %v", ranges, data, got, err)
		}
		ids := slices.Collect(messages.IDs(got))
		if int64(len(ids)) != n || !slices.IsSorted(ids) || len(slices.Compact(ids)) != len(ids) {
			t.Fatalf("%v: %d IDs, want %d that ascend", ranges, len(ids), n)
		}
		for _, other := range []int64{n - 1, n + 1, 0, -n} {
			if _, err := messages.DecodeRanges(data, other); !errors.Is(err, messages.ErrReply) {
				t.Fatalf("%q as the reply to %d: %v", data, other, err)
			}
		}
	})
}

func FuzzDecodeRanges(f *testing.F) {
	f.Add([]byte("1"), int64(math.MinInt64))
	for _, c := range vectors.Read[bodyCase](f, vectorsFile, "bodies") {
		if len(c.Body) < 1<<10 {
			f.Add([]byte(c.Body), c.N)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, n int64) {
		ranges, err := messages.DecodeRanges(data, n)
		if err != nil {
			if ranges != nil || !errors.Is(err, messages.ErrReply) || len(err.Error()) > 300 {
				t.Fatalf("%q: %v beside %v", data, ranges, err)
			}
			return
		}
		wantRanges(t, ranges, n)
		if again := encodeRanges(ranges); !bytes.Equal(again, data) {
			t.Fatalf("%q was read, and is written %q", data, again)
		}
	})
}

// wantRanges fails the test unless the ranges are a valid reply to a request
// for n IDs. It computes with unsigned numbers, in which nothing here
// overflows.
func wantRanges(t testing.TB, ranges []messages.Range, n int64) {
	t.Helper()
	var last, total uint64
	for _, r := range ranges {
		if r.First < 1 || r.Last < r.First || uint64(r.First) <= last {
			t.Fatalf("range %d-%d after %d", r.First, r.Last, last)
		}
		last = uint64(r.Last)
		total += uint64(r.Last) - uint64(r.First) + 1
	}
	if n < 1 || total != uint64(n) {
		t.Fatalf("%d IDs in the reply to a request for %d", total, n)
	}
}
