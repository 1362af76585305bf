package messages_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
)

func TestDecodeRanges(t *testing.T) {
	for _, c := range []struct {
		data string
		n    int64
		want []messages.Range
	}{
		{"1001", 1, []messages.Range{{1001, 1001}}},
		{"1001-1100", 100, []messages.Range{{1001, 1100}}},
		{"9-10\n21-30\n40", 13, []messages.Range{{9, 10}, {21, 30}, {40, 40}}},
		// Neighbours: no worker sends them, but they are valid.
		{"1\n2", 2, []messages.Range{{1, 1}, {2, 2}}},
		{"9223372036854775807", 1, []messages.Range{{math.MaxInt64, math.MaxInt64}}},
		{"1-9223372036854775807", math.MaxInt64, []messages.Range{{1, math.MaxInt64}}},
	} {
		got, err := messages.DecodeRanges([]byte(c.data), c.n)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.data, got, err, c.want)
		}
	}
	for _, c := range []struct {
		why, data string
		n         int64
	}{
		{"empty", "", 1},
		{"nothing asked for", "1", 0},
		{"fewer than nothing asked for", "1", math.MinInt64},
		{"too few", "1-9", 10},
		{"too many", "1-11", 10},
		{"too many in the second line", "1-5\n6-11", 10},
		{"zero", "0", 1},
		{"from zero", "0-9", 10},
		{"negative", "-1", 1},
		{"negative range", "-5--1", 5},
		{"leading zero", "01", 1},
		{"descending range", "9-5", 5},
		{"a range of one, spelt out", "5-5", 1},
		{"open range", "5-", 1},
		{"three ends", "1-2-3", 2},
		{"descending lines", "5\n4", 2},
		{"the same line twice", "5\n5", 2},
		{"overlapping lines", "1-5\n5-9", 10},
		{"newline at the end", "1001\n", 1},
		{"empty line between", "1\n\n2", 2},
		{"carriage return", "1\r\n2", 2},
		{"space", "1 2", 2},
		{"2^63", "9223372036854775808", 1},
		{"range to 2^63", "1-9223372036854775808", math.MaxInt64},
		{"text", "no such tag", 1},
		{"exponent", "1e3", 1},
		{"binary", "\x00\xff", 1},
	} {
		if got, err := messages.DecodeRanges([]byte(c.data), c.n); got != nil || !errors.Is(err, messages.ErrReply) {
			t.Errorf("%s: %v, %v; want ErrReply", c.why, got, err)
		}
	}
}

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
	for _, c := range []struct {
		data string
		n    int64
	}{
		{"1001", 1},
		{"1001-1100", 100},
		{"9-10\n21-30\n40", 13},
		{"1-9223372036854775807", math.MaxInt64},
		{"1-9223372036854775807\n9223372036854775808", math.MaxInt64},
		{"5-5", 1},
		{"-5--1", 5},
		{"1\n", 1},
		{strings.Repeat("1\n", 1000), 1000},
	} {
		f.Add([]byte(c.data), c.n)
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
