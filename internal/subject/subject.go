// Package subject compares NATS subjects, with and without wildcards, as the
// server does.
package subject

import (
	"slices"
	"strings"
)

// IsPattern reports whether s is a subject, with or without wildcards.
func IsPattern(s string) bool {
	tokens := strings.Split(s, ".")
	for i, token := range tokens {
		if token == "" || strings.ContainsAny(token, " \t\r\n") || token == ">" && i < len(tokens)-1 {
			return false
		}
	}
	return true
}

// IsLiteral reports whether s is a subject without wildcards.
func IsLiteral(s string) bool {
	return IsPattern(s) && !slices.ContainsFunc(strings.Split(s, "."), IsWildcard)
}

// IsWildcard reports whether a token is a wildcard.
func IsWildcard(token string) bool { return token == "*" || token == ">" }

// Overlap reports whether any subject matches both patterns.
func Overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		switch {
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != y[i] && x[i] != "*" && y[i] != "*":
			return false
		}
	}
	return len(x) == len(y)
}

// Covers reports whether a matches every subject that b matches.
func Covers(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i, token := range x {
		switch {
		case token == ">":
			return len(y) > i
		case i >= len(y) || y[i] == ">":
			return false
		case token != "*" && token != y[i]:
			return false
		}
	}
	return len(x) == len(y)
}
