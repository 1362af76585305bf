package templates

import (
	"errors"
	"fmt"
	"strings"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// ErrPattern is wrapped by the errors of [CheckPattern].
var ErrPattern = problem.New(problem.Invalid, "malformed pattern")

// IsPattern reports whether a name has a wildcard, which no tag has.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*>") }

// CheckPattern returns an error that wraps [ErrPattern] unless pattern is a tag
// with at least one wildcard in place of a token: * anywhere, > at the end.
func CheckPattern(pattern string) error {
	tokens := strings.Split(pattern, ".")
	wild := false
	for i, token := range tokens {
		switch {
		case token == "*", token == ">" && i == len(tokens)-1:
			wild, tokens[i] = true, "x"
		case token == ">":
			return fmt.Errorf("%w %.200q: > must be the last token", ErrPattern, pattern)
		case IsPattern(token):
			return fmt.Errorf("%w %.200q: * and > must be whole tokens", ErrPattern, pattern)
		}
	}
	if !wild {
		return fmt.Errorf("%w %.200q: it has no wildcard, * or >", ErrPattern, pattern)
	}
	if tag, bad := errors.AsType[*messages.TagError](messages.CheckTag(strings.Join(tokens, "."))); bad {
		return fmt.Errorf("%w %.200q: %s", ErrPattern, pattern, tag.Fault)
	}
	return nil
}

// specificity returns a text that sorts before that of b if b covers the
// pattern: where they first differ, a literal is before * and * before >. No
// byte of a token is above the letters, and none is 0.
func specificity(pattern string) string { return generality.Replace(pattern) }

var generality = strings.NewReplacer(".", "\x00", "*", "\x7e", ">", "\x7f")
