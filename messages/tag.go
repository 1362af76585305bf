package messages

import (
	"fmt"
	"unicode/utf8"

	"github.com/idworker/idworker/internal/problem"
)

// MaxTagLen is the maximum length of a tag in bytes, that of Leaf's column,
// varchar(128).
const MaxTagLen = 128

// ErrTag is wrapped by the errors of [CheckTag].
var ErrTag = problem.New(problem.Invalid, "malformed tag")

// tagByte holds the bytes allowed in the tokens of a tag. All of them are legal
// in NATS subjects and in KV keys, and none is a wildcard.
var tagByte = func() (ok [256]bool) {
	for _, r := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-" {
		ok[r] = true
	}
	return ok
}()

// CheckTag returns an error that wraps [ErrTag] unless tag is well-formed:
// tokens of A–Z a–z 0–9 _ - joined by single dots, 1 to 128 bytes in all. The
// error names the fault and the allowed values.
func CheckTag(tag string) error {
	if tag == "" || len(tag) > MaxTagLen {
		return fmt.Errorf("%w: %d bytes, allowed is 1 to %d", ErrTag, len(tag), MaxTagLen)
	}
	token := 0 // bytes in the token so far
	for i := range len(tag) {
		switch c := tag[i]; {
		case tagByte[c]:
			token++
		case c == '.' && token > 0 && i < len(tag)-1:
			token = 0
		case c == '.':
			return fmt.Errorf("%w: empty token at byte %d, allowed are tokens joined by single dots", ErrTag, i)
		default:
			c, _ := utf8.DecodeRuneInString(tag[i:])
			return fmt.Errorf("%w: %q at byte %d, allowed are A-Z a-z 0-9 _ - and dots between tokens", ErrTag, c, i)
		}
	}
	return nil
}
