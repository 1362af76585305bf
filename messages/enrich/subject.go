package enrich

import "strings"

// matchedBy lists the tokens of a subject that the wildcards of a filter match.
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

// wildcards lists the wildcards among the tokens.
func wildcards(tokens []string) (found []string) {
	for _, token := range tokens {
		if token == "*" || token == ">" {
			found = append(found, token)
		}
	}
	return found
}

// isSubject reports whether the tokens are a subject, with or without wildcards.
func isSubject(tokens []string) bool {
	for i, token := range tokens {
		if token == "" || strings.ContainsAny(token, " \t\r\n") || token == ">" && i < len(tokens)-1 {
			return false
		}
	}
	return true
}

// isLiteral reports whether s is a subject without wildcards.
func isLiteral(s string) bool {
	tokens := strings.Split(s, ".")
	return isSubject(tokens) && len(wildcards(tokens)) == 0
}

// overlap reports whether there is a subject that matches both patterns.
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

// covers reports whether a matches every subject that b matches.
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
