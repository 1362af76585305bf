package opaque

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/idworker/idworker/internal/problem"
)

// ErrKeys is wrapped by the errors of [ParseKeys].
var ErrKeys = problem.New(problem.Invalid, "malformed key file")

// masterLen is the length of a key in a file, in bytes.
const masterLen = 32

// numberKey is the name of the key of numbers in a file. Keys of texts have
// their generation, a digit.
const numberKey = "number"

// Keys are the keys of a file. They print as their fingerprint.
type Keys struct {
	lines []*master // in the file's order
}

// master is a line of a key file.
type master struct {
	name string // numberKey or a generation
	key  []byte
}

// ParseKeys reads a key file. Each line has a name, spaces or tabs, and a key:
// 32 bytes in standard, padded base64. The name is "number", or the generation
// of a key for texts, a digit of 0123456789abcdefghjkmnpqrstvwxyz. No name comes
// twice. The last generation seals. Empty lines and those that begin with # are
// ignored, and lines may end in CRLF. The error wraps [ErrKeys], names the line,
// and does not show the key.
func ParseKeys(text []byte) (*Keys, error) {
	keys, number := new(Keys), 0
	for line := range bytes.Lines(text) {
		number++
		fields := strings.FieldsFunc(string(line), func(c rune) bool { return strings.ContainsRune(" \t\r\n", c) })
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if err := keys.add(fields); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrKeys, number, err)
		}
	}
	if keys.lines == nil {
		return nil, fmt.Errorf("%w: no keys", ErrKeys)
	}
	return keys, nil
}

// add adds the key of a line.
func (k *Keys) add(fields []string) error {
	name := fields[0]
	switch {
	case len(fields) != 2 || name != numberKey && (len(name) != 1 || digitOf(name[0]) < 0):
		return errors.New("expected number, or a generation of " + digits + ", and a key")
	case k.find(name) != nil:
		return fmt.Errorf("%s has a key already", name)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(fields[1])
	if err != nil || len(key) != masterLen {
		return fmt.Errorf("the key of %s is not base64 of %d bytes", name, masterLen)
	}
	k.lines = append(k.lines, &master{name, key})
	return nil
}

// find returns the master of a name, or nil.
func (k *Keys) find(name string) *master {
	for _, m := range k.lines {
		if m.name == name {
			return m
		}
	}
	return nil
}

// NewKeyFile returns a key file with random keys, for numbers and for texts of
// generation 1.
func NewKeyFile() []byte {
	file := []byte("# Keys of opaque IDs: a secret. Keep a copy, as no opaque ID can be opened without.\n")
	for _, name := range []string{numberKey, "1"} {
		secret := make([]byte, masterLen)
		_, _ = rand.Read(secret) // never fails
		file = fmt.Appendf(file, "%s %s\n", name, base64.StdEncoding.EncodeToString(secret))
	}
	return file
}

// Fingerprint identifies the keys without showing them, as in
// "number:af27d53ede339836 1:3d808385ee667c0e", in the file's order: each name,
// with 8 bytes, in hex, of HKDF-SHA256 of the key, without salt, and the info
// "idworker opaque v1 fingerprint".
func (k *Keys) Fingerprint() string {
	var prints []string
	for _, m := range k.lines {
		prints = append(prints, m.name+":"+hex.EncodeToString(m.expand("fingerprint", 8)))
	}
	return strings.Join(prints, " ")
}

// Format implements [fmt.Formatter], so that no verb prints a key.
func (k *Keys) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "opaque keys %s", k.Fingerprint()) }

// derive returns the key of a codec.
func (m *master) derive(form string, bits int, tag string) []byte {
	return m.expand(fmt.Sprintf("%s %d %s", form, bits, tag), masterLen)
}

// expand returns n bytes that only the master and a purpose yield.
func (m *master) expand(purpose string, n int) []byte {
	key, err := hkdf.Key(sha256.New, m.key, nil, "idworker opaque v1 "+purpose, n)
	if err != nil {
		panic(err) // n is above 255 hashes
	}
	return key
}
