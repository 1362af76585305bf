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

// TagError is the error of [CheckTag]. It wraps [ErrTag].
type TagError struct {
	Fault string // the fault, and the allowed values
}

func (e *TagError) Error() string { return fmt.Sprintf("%v: %s", ErrTag, e.Fault) }

// Unwrap returns [ErrTag].
func (e *TagError) Unwrap() error { return ErrTag }

// tagByte holds the bytes allowed in the tokens of a tag. All of them are legal
// in NATS subjects and in KV keys, and none is a wildcard.
var tagByte = func() (ok [256]bool) {
	for _, r := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-" {
		ok[r] = true
	}
	return ok
}()

// CheckTag returns a [*TagError] unless tag is well-formed: tokens of A–Z a–z
// 0–9 _ - joined by single dots, 1 to 128 bytes in all.
func CheckTag(tag string) error {
	if tag == "" || len(tag) > MaxTagLen {
		return &TagError{fmt.Sprintf("%d bytes, allowed is 1 to %d", len(tag), MaxTagLen)}
	}
	token := 0 // bytes in the token so far
	for i := range len(tag) {
		switch c := tag[i]; {
		case tagByte[c]:
			token++
		case c == '.' && token > 0 && i < len(tag)-1:
			token = 0
		case c == '.':
			return &TagError{fmt.Sprintf("empty token at byte %d, allowed are tokens joined by single dots", i)}
		default:
			c, _ := utf8.DecodeRuneInString(tag[i:])
			return &TagError{fmt.Sprintf("%q at byte %d, allowed are A-Z a-z 0-9 _ - and dots between tokens", c, i)}
		}
	}
	return nil
}

// Prefix is the first token of every subject of an installation, and part of
// the names of its streams and buckets, so that several installations can share
// a NATS account. It is also the workers' queue group.
type Prefix string

// DefaultPrefix is the default prefix of callers and workers.
const DefaultPrefix Prefix = "ids"

// maxPrefixLen keeps subjects short. The exact number does not matter.
const maxPrefixLen = 32

// ErrPrefix is wrapped by the error of [Prefix.Check].
var ErrPrefix = problem.New(problem.Invalid, "bad prefix")

// Check returns an error that wraps [ErrPrefix] unless the prefix can name
// subjects, streams and buckets: a token of a–z 0–9 _ -, 1 to 32 bytes. Upper
// case is refused because stream names are in upper case: two prefixes that
// differ only in case would share their streams.
func (p Prefix) Check() error {
	if p == "" || len(p) > maxPrefixLen {
		return fmt.Errorf("%w: %d bytes, allowed is 1 to %d", ErrPrefix, len(p), maxPrefixLen)
	}
	for i := range len(p) {
		if c := p[i]; !tagByte[c] || 'A' <= c && c <= 'Z' {
			return fmt.Errorf("%w: %q has %q at byte %d, allowed are a-z 0-9 _ -", ErrPrefix, string(p), c, i)
		}
	}
	return nil
}

// The subjects that callers use, and the workers' queue group.

// Segment is the subject of requests for IDs of a tag.
func (p Prefix) Segment(tag string) string { return string(p) + ".segment." + tag }

// Snowflake is the subject of requests for snowflake IDs.
func (p Prefix) Snowflake() string { return string(p) + ".snowflake" }

// QueueGroup is the queue group in which workers answer.
func (p Prefix) QueueGroup() string { return string(p) }
