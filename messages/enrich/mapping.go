package enrich

import (
	"fmt"
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
)

// mapping turns the subjects that a filter matches into subjects of the target:
// the match of the nth wildcard of the filter replaces the nth wildcard of the
// target.
type mapping struct{ filter, to []string }

// newMapping checks that both are subjects, and that each wildcard of the
// target has a counterpart in the filter. A target without wildcards gets all
// events on a single subject.
func newMapping(filter, to string) (mapping, error) {
	m := mapping{strings.Split(filter, "."), strings.Split(to, ".")}
	for _, pattern := range []string{filter, to} {
		if !subject.IsPattern(pattern) {
			return m, configError("filter or target %q, want a subject, optionally with * and a final >", pattern)
		}
	}
	have, want := wildcards(m.filter), wildcards(m.to)
	if len(want) > 0 && !slices.Equal(have, want) {
		return m, configError("target %q needs the wildcards of filter %q in the same order, or none", to, filter)
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

// matchedBy lists the match of each wildcard of a filter in a subject, the rest
// for >.
func matchedBy(filter []string, subject string) (matched []string) {
	rest := strings.SplitN(subject, ".", len(filter))
	for i, token := range filter {
		if isWildcard(token) {
			matched = append(matched, rest[i])
		}
	}
	return matched
}

// idKind is the kind of IDs that events get: snowflake IDs, or those of a tag,
// which may depend on the event's subject.
type idKind struct {
	filter []string
	tag    []string // tokens; nil means snowflake IDs
	// Tokens of the tag that stand for the match of an nth * of the filter.
	wildcards map[int]int
}

// parseIDKind reads "snowflake", or "segment:" and a tag with or without
// {{wildcard(n)}}.
func parseIDKind(s, filter string) (idKind, error) {
	kind := idKind{filter: strings.Split(filter, "."), wildcards: make(map[int]int)}
	if s == "snowflake" {
		return kind, nil
	}
	tag, ok := strings.CutPrefix(s, "segment:")
	if !ok || tag == "" {
		return kind, configError("kind of ID %q, want snowflake, or segment:TAG", s)
	}
	kind.tag = strings.Split(tag, ".")
	sample := slices.Clone(kind.tag)
	stars := len(wildcards(strings.Split(strings.TrimSuffix(filter, ">"), ".")))
	for i, part := range kind.tag {
		var n int
		if _, _ = fmt.Sscanf(part, "{{wildcard(%d)}}", &n); part != fmt.Sprintf("{{wildcard(%d)}}", n) {
			continue
		}
		if n < 1 || n > stars {
			return kind, configError("%s in the tag, but filter %q has %d *", part, filter, stars)
		}
		kind.wildcards[i], sample[i] = n, "x"
	}
	if err := messages.CheckTag(strings.Join(sample, ".")); err != nil {
		return kind, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return kind, nil
}

// isSnowflake reports whether the IDs are snowflake IDs.
func (k idKind) isSnowflake() bool { return k.tag == nil }

// dependsOnEvent reports whether the tag depends on the event.
func (k idKind) dependsOnEvent() bool { return len(k.wildcards) > 0 }

// tagFor returns the tag for an event with that subject, empty for snowflake
// IDs.
func (k idKind) tagFor(subject string) string {
	if !k.dependsOnEvent() {
		return strings.Join(k.tag, ".")
	}
	matched := matchedBy(k.filter, subject)
	tag := slices.Clone(k.tag)
	for i, n := range k.wildcards {
		tag[i] = matched[n-1]
	}
	return strings.Join(tag, ".")
}
