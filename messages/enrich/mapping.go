package enrich

import (
	"slices"
	"strings"
)

// mapping turns the subjects that a filter matches into subjects of the target: what the
// nth wildcard of the filter matched takes the place of the nth wildcard of the target.
type mapping struct{ filter, to []string }

// newMapping checks that both are subjects, and that each wildcard of the target has a
// counterpart in the filter. A target without wildcards gets all events on one subject.
func newMapping(filter, to string) (mapping, error) {
	m := mapping{strings.Split(filter, "."), strings.Split(to, ".")}
	for what, tokens := range map[string][]string{"filter": m.filter, "target": m.to} {
		if !isSubject(tokens) {
			return m, configError("%s %q, want a subject: tokens joined by dots, * for any token, > at the end for the rest", what, strings.Join(tokens, "."))
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
