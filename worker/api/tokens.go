package api

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
)

// Times is the name of snowflake IDs in a token file. No tag can have it.
const Times = "@snowflake"

// The bounds on tokens, in bytes. Shorter tokens could be guessed.
const (
	minToken = 16
	maxToken = 256
)

// ErrTokens is wrapped by the errors of [ParseTokens].
var ErrTokens = problem.New(problem.Invalid, "malformed token file")

// Tokens are the rights of tokens, by the token's digest, so that the duration
// of a look-up reveals nothing about a token.
type Tokens map[[sha256.Size]byte]right

// right lists the tags and patterns that a token allows, and Times.
type right []string

// ParseTokens reads tokens and their rights. Each line has a token, of 16 to
// 256 letters, digits and -._~+/=, and then its rights, separated by spaces:
// tags, patterns like order.* and >, and @snowflake. Empty lines and those that
// begin with # are ignored. The error wraps [ErrTokens], names the line, and
// does not show the token.
func ParseTokens(text []byte) (Tokens, error) {
	t, number := make(Tokens), 0
	for line := range bytes.Lines(text) {
		number++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := t.add(fields[0], fields[1:]); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTokens, number, err)
		}
	}
	if len(t) == 0 {
		return nil, fmt.Errorf("%w: no tokens", ErrTokens)
	}
	return t, nil
}

func (t Tokens) add(token string, patterns []string) error {
	switch {
	case len(token) < minToken || len(token) > maxToken:
		return fmt.Errorf("token of %d bytes, allowed is %d to %d", len(token), minToken, maxToken)
	case strings.ContainsFunc(token, func(c rune) bool { return !isTokenByte(c) }):
		return errors.New("invalid character in token, allowed are A-Z a-z 0-9 and -._~+/=")
	case len(patterns) == 0:
		return errors.New("token without rights, allowed are tags, patterns, > for all tags, and " + Times)
	case t.find(token) != nil:
		return errors.New("duplicate token")
	}
	for _, p := range patterns {
		err := messages.CheckTag(p)
		if templates.IsPattern(p) {
			err = templates.CheckPattern(p)
		}
		if err != nil && p != Times {
			return err
		}
	}
	t[sha256.Sum256([]byte(token))] = patterns
	return nil
}

func isTokenByte(c rune) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+/=", c)
}

// find returns the right of a token, nil if there is no such token.
func (t Tokens) find(token string) right { return t[sha256.Sum256([]byte(token))] }

// allows reports whether the right includes a tag, or Times.
func (r right) allows(what string) bool {
	return slices.ContainsFunc(r, func(p string) bool {
		return p == what || what != Times && templates.IsPattern(p) && subject.Covers(p, what)
	})
}
