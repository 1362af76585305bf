package opaque

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// The errors of codecs, for [errors.Is]. The text names the fault and the
// allowed values.
var (
	// The width is neither 63 nor 53 bits.
	ErrBits = problem.New(problem.Invalid, "bad width")
	// The key file has no key of the form.
	ErrNoKey = problem.New(problem.Invalid, "no key")
	// The ID or the sealed number is below 1, or too large for the width.
	ErrRange = problem.New(problem.Invalid, "outside the width")
	// The text has another prefix, or the prefix for a codec is malformed.
	ErrPrefix = problem.New(problem.Invalid, "wrong prefix")
	// The text has too few or too many digits.
	ErrLength = problem.New(problem.Invalid, "wrong length")
	// The text has a character that is no digit.
	ErrAlphabet = problem.New(problem.Invalid, "not a digit")
	// The key file has no key of the text's generation.
	ErrGeneration = problem.New(problem.Invalid, "unknown generation")
	// The check digit is wrong: the text was sealed for another tag or with
	// another key, or was mistyped.
	ErrCheck = problem.New(problem.Invalid, "wrong check digit")
)

// NumberCodec seals IDs of one tag as numbers. It is safe for concurrent use.
type NumberCodec struct {
	bits   int
	cipher *permutation
}

// Number returns the codec for numbers of a tag. Numbers have 63 bits, or 53 for
// callers whose numbers are doubles, as in JavaScript: up to 2^bits-1. The error
// wraps [ErrBits], [ErrNoKey] or [messages.ErrTag].
func (k *Keys) Number(tag string, bits int) (*NumberCodec, error) {
	if bits != fullBits && bits != doubleBits {
		return nil, fmt.Errorf("%w: %d bits, allowed are %d and %d", ErrBits, bits, fullBits, doubleBits)
	}
	if err := messages.CheckTag(tag); err != nil {
		return nil, err
	}
	m := k.find(numberKey)
	if m == nil {
		return nil, fmt.Errorf("%w: the key file has no line %s", ErrNoKey, numberKey)
	}
	return &NumberCodec{bits, newPermutation(m.derive("number", bits, tag), bits)}, nil
}

// The widths, in bits.
const (
	fullBits   = 63 // of any ID, and of the number in a text
	doubleBits = 53 // of integers that doubles hold exactly
)

// Seal returns the opaque number of an ID. The ID is from 1 to 2^bits-1, and so
// is the result. The error wraps [ErrRange].
func (c *NumberCodec) Seal(id int64) (int64, error) {
	if err := checkRange("ID", id, c.bits); err != nil {
		return 0, err
	}
	return c.cipher.seal(id), nil
}

// Open returns the ID of an opaque number, from 1 to 2^bits-1. A number that
// [NumberCodec.Seal] never returned opens to some ID, too. The error wraps
// [ErrRange].
func (c *NumberCodec) Open(sealed int64) (int64, error) {
	if err := checkRange("sealed number", sealed, c.bits); err != nil {
		return 0, err
	}
	return c.cipher.open(sealed), nil
}

// Format implements [fmt.Formatter], so that no verb prints a key.
func (c *NumberCodec) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "opaque numbers of %d bits", c.bits)
}

func checkRange(what string, n int64, bits int) error {
	if n < 1 || uint64(n) > mask(bits) {
		return fmt.Errorf("%w: %s %d, allowed is 1 to 2^%d-1", ErrRange, what, n, bits)
	}
	return nil
}

// seal walks over 0. It comes at most once, because the cipher is a permutation.
func (p *permutation) seal(id int64) int64 {
	x := p.encrypt(uint64(id))
	if x == 0 {
		x = p.encrypt(0)
	}
	return int64(x)
}

// open reverses seal.
func (p *permutation) open(sealed int64) int64 {
	x := p.decrypt(uint64(sealed))
	if x == 0 {
		x = p.decrypt(0)
	}
	return int64(x)
}

// The digits of texts, in ASCII order, without those that look like others.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// digitOf returns the value of a digit, or -1.
func digitOf(c byte) int { return strings.IndexByte(digits, c) }

// The length of a text after its prefix: a generation, the digits of a number,
// and a check digit.
const (
	numberLen = (fullBits + 4) / 5
	bodyLen   = 1 + numberLen + 1
)

// TextCodec seals IDs of one tag as texts. It is safe for concurrent use.
type TextCodec struct {
	prefix string     // with the _
	keys   []*textKey // by generation, in the file's order; the last one seals
}

// textKey holds what a generation's key yields for a tag.
type textKey struct {
	generation byte
	cipher     *permutation
	check      []byte
}

// Text returns the codec for texts of a tag, which begin with a prefix of a-z
// 0-9 _ and a further _. The error wraps [ErrPrefix], [ErrNoKey] or
// [messages.ErrTag].
func (k *Keys) Text(tag, prefix string) (*TextCodec, error) {
	if strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return nil, fmt.Errorf("%w: %.40q, allowed are a-z 0-9 _", ErrPrefix, prefix)
	}
	if err := messages.CheckTag(tag); err != nil {
		return nil, err
	}
	c := &TextCodec{prefix: prefix + "_"}
	for _, m := range k.lines {
		if m.name == numberKey {
			continue
		}
		c.keys = append(c.keys, &textKey{
			generation: m.name[0],
			cipher:     newPermutation(m.derive("text", fullBits, tag), fullBits),
			check:      m.derive("check", fullBits, tag),
		})
	}
	if c.keys == nil {
		return nil, fmt.Errorf("%w: the key file has no generation", ErrNoKey)
	}
	return c, nil
}

// Seal returns the opaque text of an ID from 1 to 2^63-1, in lower case: the
// prefix, "_", and 15 digits. The error wraps [ErrRange].
func (c *TextCodec) Seal(id int64) (string, error) {
	if err := checkRange("ID", id, fullBits); err != nil {
		return "", err
	}
	key := c.keys[len(c.keys)-1]
	sealed := key.cipher.seal(id)
	text := make([]byte, 0, len(c.prefix)+bodyLen)
	text = append(append(text, c.prefix...), key.generation)
	for shift := 5 * (numberLen - 1); shift >= 0; shift -= 5 {
		text = append(text, digits[sealed>>shift&31])
	}
	return string(append(text, key.checkDigit(text))), nil
}

// Open returns the ID of an opaque text, from 1 to 2^63-1. Upper case is
// accepted in the whole text. A text that [TextCodec.Seal] never returned opens
// to some ID in 1 of 32 cases. The error wraps [ErrPrefix], [ErrLength],
// [ErrAlphabet], [ErrRange], [ErrGeneration] or [ErrCheck].
func (c *TextCodec) Open(text string) (int64, error) {
	lower := []byte(text)
	for i, b := range lower {
		if 'A' <= b && b <= 'Z' { // no letters beyond ASCII
			lower[i] += 'a' - 'A'
		}
	}
	split := strings.LastIndexByte(text, '_') + 1
	if string(lower[:split]) != c.prefix {
		return 0, fmt.Errorf("%w: %.40q, allowed is %s", ErrPrefix, text[:split], c.prefix)
	}
	body := lower[split:]
	for i := range body {
		if digitOf(body[i]) < 0 {
			bad, _ := utf8.DecodeRuneInString(text[split+i:])
			return 0, fmt.Errorf("%w: %q at byte %d, allowed are %s", ErrAlphabet, bad, split+i, digits)
		}
	}
	if len(body) != bodyLen {
		return 0, fmt.Errorf("%w: %d digits after %s, allowed is %d", ErrLength, len(body), c.prefix, bodyLen)
	}
	generation, number, check := body[0], body[1:bodyLen-1], body[bodyLen-1]
	var sealed uint64
	for _, digit := range number {
		sealed = sealed<<5 | uint64(digitOf(digit))
	}
	if number[0] > '7' || sealed == 0 {
		return 0, fmt.Errorf("%w: sealed number %s, allowed is 0000000000001 to 7zzzzzzzzzzzz", ErrRange, number)
	}
	i := slices.IndexFunc(c.keys, func(k *textKey) bool { return k.generation == generation })
	if i < 0 {
		return 0, fmt.Errorf("%w: %c is not in the key file", ErrGeneration, generation)
	}
	if check != c.keys[i].checkDigit(lower[:len(lower)-1]) {
		return 0, fmt.Errorf("%w: the text is of another tag or key, or mistyped", ErrCheck)
	}
	return c.keys[i].cipher.open(int64(sealed)), nil
}

// Format implements [fmt.Formatter], so that no verb prints a key.
func (c *TextCodec) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "opaque texts of %s", c.prefix) }

// checkDigit returns the check digit of a text that lacks only that.
func (k *textKey) checkDigit(text []byte) byte {
	mac := hmac.New(sha256.New, k.check)
	mac.Write(text)
	return digits[binary.BigEndian.Uint64(mac.Sum(nil))%uint64(len(digits))]
}
