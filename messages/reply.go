package messages

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"
)

// Range is a contiguous range of IDs, both ends included, as it appears in replies.
type Range struct {
	First int64
	Last  int64
}

// Len is the number of IDs in the range.
func (r Range) Len() int64 { return r.Last - r.First + 1 }

// String formats the range as a line of a reply.
func (r Range) String() string { return string(AppendRange(nil, r)) }

// IDs yields the IDs of the ranges one by one, in order.
func IDs(ranges []Range) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, r := range ranges {
			for id := r.First; ; id++ {
				if !yield(id) {
					return
				}
				if id == r.Last {
					break
				}
			}
		}
	}
}

// AppendRange appends one more line of a reply to dst.
func AppendRange(dst []byte, r Range) []byte {
	if len(dst) > 0 {
		dst = append(dst, '\n')
	}
	dst = strconv.AppendInt(dst, r.First, 10)
	if r.Last > r.First {
		dst = append(dst, '-')
		dst = strconv.AppendInt(dst, r.Last, 10)
	}
	return dst
}

// ErrReply is wrapped by the errors of [DecodeRanges]: whoever answered breaks the
// contract, and no ID of that reply may be used.
var ErrReply = errors.New("malformed reply")

// DecodeRanges reads the reply to a request for n IDs. It returns an error that wraps
// [ErrReply] unless the ranges ascend, do not overlap, lie in 1 … 2^63−1 and hold
// exactly n IDs.
func DecodeRanges(data []byte, n int64) ([]Range, error) {
	var ranges []Range
	var last, total int64
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		r, ok := decodeRange(line)
		if !ok {
			return nil, fmt.Errorf("%w: %.40q is not a range of IDs", ErrReply, line)
		}
		if r.First <= last {
			return nil, fmt.Errorf("%w: range %s is not above the one before it", ErrReply, r)
		}
		if r.Len() > n-total {
			return nil, fmt.Errorf("%w: more than the %d IDs asked for", ErrReply, n)
		}
		total += r.Len()
		last = r.Last
		ranges = append(ranges, r)
	}
	if total != n {
		return nil, fmt.Errorf("%w: %d IDs, asked for %d", ErrReply, total, n)
	}
	return ranges, nil
}

// decodeRange reads one line of a reply.
func decodeRange(line []byte) (r Range, ok bool) {
	first, last, isRange := bytes.Cut(line, []byte{'-'})
	if r.First, ok = parseDecimal(first); !ok || !isRange {
		r.Last = r.First
		return r, ok
	}
	r.Last, ok = parseDecimal(last)
	return r, ok && r.First < r.Last
}
