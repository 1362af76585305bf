package messages

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrCount is wrapped by the errors of [DecodeCount].
var ErrCount = errors.New("malformed count")

// maxCountLen is the length of 2^63−1 in decimal. More digits cannot be a count, so a
// megabyte of them is refused without being read.
const maxCountLen = 19

// EncodeCount returns the body of a request for n IDs, n at least 1: empty for 1,
// otherwise n in decimal.
func EncodeCount(n int64) []byte {
	if n == 1 {
		return nil
	}
	return strconv.AppendInt(nil, n, 10)
}

// DecodeCount reads the body of a request: empty means 1; anything else must be an ASCII
// decimal from 1 to limit, without sign, space or leading zero. The error wraps
// [ErrCount].
func DecodeCount(data []byte, limit int64) (int64, error) {
	if len(data) == 0 {
		return 1, nil
	}
	if len(data) > maxCountLen {
		return 0, fmt.Errorf("%w: %d bytes, allowed is an empty request or a decimal from 1 to %d", ErrCount, len(data), limit)
	}
	n, ok := parseDecimal(data)
	if !ok || n < 1 || n > limit {
		return 0, fmt.Errorf("%w: %q, allowed is an empty request or a decimal from 1 to %d", ErrCount, data, limit)
	}
	return n, nil
}

// parseDecimal reads digits without a leading zero. ok is false for anything else, and
// for numbers that do not fit an int64.
func parseDecimal(digits []byte) (n int64, ok bool) {
	if len(digits) == 0 || len(digits) > maxCountLen || digits[0] == '0' {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
		if n < 0 { // past 2^63−1; 19 digits cannot wrap around to a positive number
			return 0, false
		}
	}
	return n, true
}
