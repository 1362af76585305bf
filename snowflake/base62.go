package snowflake

import (
	"fmt"
	"math"
	"strings"
)

// The digits in the order of ASCII, so that texts sort as the IDs do.
const base62Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// base62Len is the length of 2^63−1.
const base62Len = 11

// Base62 is the ID in 11 characters of 0–9 A–Z a–z. Shorter texts have leading
// zeros: the IDs of a layout grow from 10 to 11 digits in the middle of its
// life, and texts of different lengths would sort wrongly.
func (id ID) Base62() string {
	var text [base62Len]byte
	rest := uint64(id)
	for i := base62Len - 1; i >= 0; i-- {
		text[i] = base62Digits[rest%62]
		rest /= 62
	}
	return string(text[:])
}

// ParseBase62 reads an ID as Base62 writes it. The error wraps [ErrID].
func ParseBase62(text string) (ID, error) {
	if len(text) != base62Len {
		return 0, fmt.Errorf("%w: %d bytes of base62, allowed is %d", ErrID, len(text), base62Len)
	}
	var n uint64 // 62^11 < 2^66, but n is checked before it can wrap
	for i := range len(text) {
		digit := strings.IndexByte(base62Digits, text[i])
		if digit < 0 {
			return 0, fmt.Errorf("%w: %q at byte %d, allowed are 0-9 A-Z a-z", ErrID, text[i], i)
		}
		if n > (math.MaxInt64-uint64(digit))/62 {
			return 0, fmt.Errorf("%w: %q is above 2^63-1", ErrID, text)
		}
		n = n*62 + uint64(digit)
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: %q is 0, IDs begin with 1", ErrID, text)
	}
	return ID(n), nil
}
