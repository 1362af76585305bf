package api

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
)

// Times is how a file of tokens names snowflake IDs, which no tag is called.
const Times = "@snowflake"

// The bounds on tokens, in bytes. A short one could be guessed.
const (
	minToken = 16
	maxToken = 256
)

// ErrTokens is wrapped by the errors of [ParseTokens].
var ErrTokens = problem.New(problem.Invalid, "malformed file of tokens")

// Tokens says which token may ask for what.
type Tokens struct {
	salt   [saltSize]byte
	rights map[digest]right
}

// saltSize is how many bytes are random in what is digested. With it, most tokens take one block of SHA-256.
const saltSize = 16

// digest stands for a token. Nobody outside this process can choose or know one, so how long it takes to
// look one up tells nothing of a token.
type digest [sha256.Size]byte

// right is what a token may ask for.
type right struct {
	digest   digest
	patterns []string // of tags, and Times
}

// ParseTokens reads which token may ask for what. Each line has a token, of 16 to 256 letters, digits and
// -._~+/=, and behind it, separated by spaces, what it may ask for: tags, patterns like order.* and >,
// and @snowflake. Empty lines and those that begin with # do not count. The error wraps [ErrTokens], names
// the line, and says nothing of the token.
func ParseTokens(text []byte) (Tokens, error) {
	t := Tokens{rights: make(map[digest]right)}
	_, _ = rand.Read(t.salt[:]) // never fails
	number := 0
	for line := range bytes.Lines(text) {
		number++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := t.add(fields[0], fields[1:]); err != nil {
			return Tokens{}, fmt.Errorf("%w: line %d: %w", ErrTokens, number, err)
		}
	}
	if len(t.rights) == 0 {
		return Tokens{}, fmt.Errorf("%w: no tokens", ErrTokens)
	}
	return t, nil
}

func readTokens(contents [][]byte) (Tokens, error) { return ParseTokens(contents[0]) }

func (t *Tokens) add(token string, patterns []string) error {
	switch {
	case len(token) < minToken || len(token) > maxToken:
		return fmt.Errorf("a token of %d bytes, allowed is %d to %d", len(token), minToken, maxToken)
	case strings.ContainsFunc(token, func(c rune) bool { return !isTokenByte(c) }):
		return errors.New("a character that no token may have, allowed are A-Z a-z 0-9 and -._~+/=")
	case len(patterns) == 0:
		return errors.New("a token without a right, allowed are tags, patterns like order.*, > for all tags, and " + Times)
	}
	for _, p := range patterns {
		if err := checkRight(p); err != nil {
			return err
		}
	}
	d := t.digest(token)
	if _, twice := t.rights[d]; twice {
		return errors.New("a token that is there twice")
	}
	t.rights[d] = right{d, patterns}
	return nil
}

func isTokenByte(c rune) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+/=", c)
}

func checkRight(pattern string) error {
	if pattern == Times {
		return nil
	}
	if templates.IsPattern(pattern) {
		return templates.CheckPattern(pattern)
	}
	return messages.CheckTag(pattern)
}

// digest is for tokens of maxToken bytes at most.
func (t *Tokens) digest(token string) digest {
	var salted [saltSize + maxToken]byte
	n := copy(salted[:], t.salt[:])
	n += copy(salted[n:], token)
	return sha256.Sum256(salted[:n])
}

// find returns the right of a token. It takes as long for one that is nearly right as for any other.
func (t *Tokens) find(token string) (r right, ok bool) {
	if len(token) > maxToken {
		return r, false
	}
	d := t.digest(token)
	r, ok = t.rights[d]
	return r, ok && subtle.ConstantTimeCompare(d[:], r.digest[:]) == 1
}

// allows reports whether something may be asked for: a tag, or Times.
func (r right) allows(what string) bool {
	return slices.ContainsFunc(r.patterns, func(p string) bool {
		return p == what || what != Times && templates.IsPattern(p) && templates.Matches(p, what)
	})
}
