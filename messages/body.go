package messages

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/idworker/idworker/internal/problem"
)

// Range is a contiguous range of IDs, both ends included, as in replies.
type Range struct {
	First int64
	Last  int64
}

// Len returns the number of IDs in the range.
func (r Range) Len() int64 { return r.Last - r.First + 1 }

// String formats the range as a line of a reply.
func (r Range) String() string { return string(AppendRange(nil, r)) }

// IDs yields the IDs of the ranges in order.
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

// AppendRange appends another line of a reply to dst.
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

// ErrReply is wrapped by the errors of [DecodeRanges] and [DecodeReply]: the
// replier breaks the contract, and no ID of that reply may be used.
var ErrReply = errors.New("malformed reply")

// DecodeRanges reads the reply to a request for n IDs. It returns an error that
// wraps [ErrReply] unless the ranges ascend, do not overlap, lie in 1 … 2^63−1
// and hold exactly n IDs.
func DecodeRanges(data []byte, n int64) ([]Range, error) {
	var ranges []Range
	var last, total int64
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		r, ok := decodeRange(line)
		if !ok {
			return nil, fmt.Errorf("%w: %.40q is not a range of IDs", ErrReply, line)
		}
		if r.First <= last {
			return nil, fmt.Errorf("%w: range %s is not above the previous one", ErrReply, r)
		}
		if r.Len() > n-total {
			return nil, fmt.Errorf("%w: more than the %d IDs requested", ErrReply, n)
		}
		total += r.Len()
		last = r.Last
		ranges = append(ranges, r)
	}
	if total != n {
		return nil, fmt.Errorf("%w: %d IDs, requested %d", ErrReply, total, n)
	}
	return ranges, nil
}

// decodeRange reads a line of a reply.
func decodeRange(line []byte) (r Range, ok bool) {
	first, last, isRange := bytes.Cut(line, []byte{'-'})
	if r.First, ok = parseDecimal(first); !ok || !isRange {
		r.Last = r.First
		return r, ok
	}
	r.Last, ok = parseDecimal(last)
	return r, ok && r.First < r.Last
}

// ErrCount is wrapped by the errors for a count that is not allowed.
var ErrCount = problem.New(problem.Invalid, "malformed count")

// CountError is the error of [DecodeCount]. It wraps [ErrCount].
type CountError struct {
	Limit int64 // the largest count allowed
	fault string
}

func (e *CountError) Error() string {
	return fmt.Sprintf("%s a decimal from 1 to %d", e.fault, e.Limit)
}

// Unwrap returns [ErrCount].
func (e *CountError) Unwrap() error { return ErrCount }

// maxCountLen is the length of 2^63−1 in decimal. More digits cannot be a
// count, so a megabyte of them is refused unread.
const maxCountLen = 19

// EncodeCount returns the body of a request for n IDs, n at least 1: empty for
// 1, otherwise n in decimal.
func EncodeCount(n int64) []byte {
	if n == 1 {
		return nil
	}
	return strconv.AppendInt(nil, n, 10)
}

// DecodeCount reads the body of a request: empty means 1; anything else must be
// an ASCII decimal from 1 to limit, without sign, space or leading zero. The
// error is a [*CountError].
func DecodeCount(data []byte, limit int64) (int64, error) {
	if len(data) == 0 {
		return 1, nil
	}
	if len(data) > maxCountLen {
		return 0, &CountError{limit, fmt.Sprintf("%v: %d bytes, allowed is an empty request or", ErrCount, len(data))}
	}
	n, ok := parseDecimal(data)
	if ok && n > limit {
		return 0, &CountError{limit, fmt.Sprintf("count %d is too large, allowed is", n)}
	}
	if !ok {
		return 0, &CountError{limit, fmt.Sprintf("%v: %q, allowed is an empty request or", ErrCount, data)}
	}
	return n, nil
}

// parseDecimal reads digits without a leading zero. ok is false for anything
// else, and for numbers that do not fit an int64.
func parseDecimal(digits []byte) (n int64, ok bool) {
	if len(digits) == 0 || len(digits) > maxCountLen || digits[0] == '0' {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
		// Past 2^63−1; 19 digits cannot wrap around to a positive number.
		if n < 0 {
			return 0, false
		}
	}
	return n, true
}
