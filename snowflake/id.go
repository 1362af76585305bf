package snowflake

import (
	"fmt"
	"strconv"
)

// ID is a snowflake ID, 1 … 2^63−1. A [Layout] defines its bits.
//
// As text it is decimal, as JSON a string, because JavaScript rounds numbers
// above 2^53.
type ID int64

// String is the ID in decimal.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// maxIDLen is the length of 2^63−1 in decimal.
const maxIDLen = 19

// Parse reads an ID as String writes it: decimal, without sign, space or
// leading zero. The error wraps [ErrID].
func Parse(text string) (ID, error) {
	if n, ok := parseDecimal(text); ok {
		return ID(n), nil
	}
	return 0, fmt.Errorf("%w: %.40q, allowed is a decimal from 1 to 9223372036854775807", ErrID, text)
}

func parseDecimal(text string) (n int64, ok bool) {
	if len(text) == 0 || len(text) > maxIDLen || text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		c := text[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
		// Past 2^63−1; 19 digits cannot wrap around to a positive number.
		if n < 0 {
			return 0, false
		}
	}
	return n, true
}
