package enrich

import (
	"slices"
	"strings"
)

// mapping turns the subjects that a filter matches into those of the target: the nth
// wildcard of the one gives what stands for the nth wildcard of the other.
type mapping struct{ filter, to []string }

// newMapping checks that both are subjects, and that each wildcard of the target has its
// counterpart. A target without wildcards takes all events on one subject.
func newMapping(filter, to string) (mapping, error) {
	m := mapping{strings.Split(filter, "."), strings.Split(to, ".")}
	for what, tokens := range map[string][]string{"filter": m.filter, "target": m.to} {
		if !validSubject(tokens) {
			return m, bad("%s %q, want a subject: tokens joined by dots, * for any token, > at the end for the rest", what, strings.Join(tokens, "."))
		}
	}
	have, want := wildcards(m.filter), wildcards(m.to)
	if len(want) > 0 && !slices.Equal(have, want) {
		return m, bad("target %q has other wildcards than the filter %q; want the same ones in the same order, or none", to, filter)
	}
	return m, nil
}

// apply maps a subject that the filter matches.
func (m mapping) apply(subject string) string {
	matched := matchedBy(m.filter, strings.Split(subject, "."))
	out := make([]string, 0, len(m.to)+len(matched))
	for _, token := range m.to {
		switch token {
		case "*":
			out, matched = append(out, matched[0]), matched[1:]
		case ">":
			out = append(out, matched...)
		default:
			out = append(out, token)
		}
	}
	return strings.Join(out, ".")
}

// matchedBy lists the tokens of a subject that the wildcards of a filter matched.
func matchedBy(filter, subject []string) (matched []string) {
	for i, token := range filter {
		switch token {
		case "*":
			matched = append(matched, subject[i])
		case ">":
			return append(matched, subject[i:]...)
		}
	}
	return matched
}

func wildcards(tokens []string) (found []string) {
	for _, token := range tokens {
		if token == "*" || token == ">" {
			found = append(found, token)
		}
	}
	return found
}

// validSubject reports whether the tokens are a subject, with or without wildcards.
func validSubject(tokens []string) bool {
	for i, token := range tokens {
		if token == "" || strings.ContainsAny(token, " \t\r\n") || token == ">" && i < len(tokens)-1 {
			return false
		}
	}
	return true
}

// literal reports whether s is a subject without wildcards.
func literal(s string) bool {
	tokens := strings.Split(s, ".")
	return validSubject(tokens) && len(wildcards(tokens)) == 0
}

// overlap reports whether some subject matches both patterns.
func overlap(a, b string) bool {
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

// covers reports whether every subject that b matches is matched by a too.
func covers(a, b string) bool {
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
