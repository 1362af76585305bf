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
	for {
		x, restA, moreA := strings.Cut(a, ".")
		y, restB, moreB := strings.Cut(b, ".")
		switch {
		case x == ">" || y == ">":
			return true
		case x != y && x != "*" && y != "*", moreA != moreB:
			return false
		case !moreA:
			return true
		}
		a, b = restA, restB
	}
}

// Covers reports whether a matches every subject that b matches.
func Covers(a, b string) bool {
	for {
		x, restA, moreA := strings.Cut(a, ".")
		y, restB, moreB := strings.Cut(b, ".")
		switch {
		case x == ">":
			return true
		case y == ">", x != y && x != "*", moreA != moreB:
			return false
		case !moreA:
			return true
		}
		a, b = restA, restB
	}
}
