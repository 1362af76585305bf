package enrich

import (
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/subject"
)

// mapping turns the subjects that a filter matches into subjects of the target: what the
// nth wildcard of the filter matched takes the place of the nth wildcard of the target.
type mapping struct{ filter, to []string }

// newMapping checks that both are subjects, and that each wildcard of the target has a
// counterpart in the filter. A target without wildcards gets all events on one subject.
func newMapping(filter, to string) (mapping, error) {
	m := mapping{strings.Split(filter, "."), strings.Split(to, ".")}
	for _, pattern := range []string{filter, to} {
		if !subject.IsPattern(pattern) {
			return m, configError("filter or target %q, want a subject: tokens joined by dots, * for any token, > at the end for the rest", pattern)
		}
	}
	have, want := wildcards(m.filter), wildcards(m.to)
	if len(want) > 0 && !slices.Equal(have, want) {
		return m, configError("target %q has other wildcards than the filter %q; want the same wildcards in the same order, or none", to, filter)
	}
	return m, nil
}

// apply maps a subject, which the filter has to match.
func (m mapping) apply(subject string) string {
	matched := matchedBy(m.filter, subject)
	out := slices.Clone(m.to)
	for i, token := range out {
		if isWildcard(token) {
			out[i], matched = matched[0], matched[1:]
		}
	}
	return strings.Join(out, ".")
}

func isWildcard(token string) bool { return subject.IsWildcard(token) }

// wildcards lists the wildcards among the tokens.
func wildcards(tokens []string) []string {
	return slices.DeleteFunc(slices.Clone(tokens), func(t string) bool { return !isWildcard(t) })
}

// matchedBy lists what each wildcard of a filter stands for in a subject, the rest for >.
func matchedBy(filter []string, subject string) (matched []string) {
	rest := strings.SplitN(subject, ".", len(filter))
	for i, token := range filter {
		if isWildcard(token) {
			matched = append(matched, rest[i])
		}
	}
	return matched
}
