package enrich

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/idworker/idworker/messages"
)

// idKind says which IDs events get: snowflake IDs, or those of a tag, which may depend on
// the event's subject.
type idKind struct {
	filter []string
	parts  []string // tokens of the tag; nil means snowflake IDs
}

const segmentKind = "segment:"

// parseIDKind reads "snowflake", or "segment:" and a tag with or without {{wildcard(n)}}.
func parseIDKind(s, filter string) (idKind, error) {
	kind := idKind{filter: strings.Split(filter, ".")}
	if s == "snowflake" {
		return kind, nil
	}
	tag, ok := strings.CutPrefix(s, segmentKind)
	if !ok || tag == "" {
		return kind, configError("kind of ID %q, want snowflake, or segment:TAG", s)
	}
	kind.parts = strings.Split(tag, ".")
	stars := strings.Count(" "+strings.Join(wildcards(kind.filter), " "), "*")
	sample := make([]string, len(kind.parts))
	for i, part := range kind.parts {
		n, isWildcard := parseWildcard(part)
		switch {
		case !isWildcard:
			sample[i] = part
		case n < 1 || n > stars:
			return kind, configError("%s in the tag, but the filter %q has %d wildcards *", part, filter, stars)
		default:
			sample[i] = "x"
		}
	}
	if err := messages.CheckTag(strings.Join(sample, ".")); err != nil {
		return kind, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return kind, nil
}

// parseWildcard reads {{wildcard(n)}}.
func parseWildcard(part string) (int, bool) {
	inner, ok := strings.CutPrefix(part, "{{wildcard(")
	if !ok {
		return 0, false
	}
	number, ok := strings.CutSuffix(inner, ")}}")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil
}

// isSnowflake reports whether the IDs are snowflake IDs.
func (k idKind) isSnowflake() bool { return k.parts == nil }

// dependsOnEvent reports whether the tag depends on the event.
func (k idKind) dependsOnEvent() bool {
	return slices.ContainsFunc(k.parts, func(p string) bool { _, is := parseWildcard(p); return is })
}

// tagFor returns the tag for an event with that subject, empty for snowflake IDs.
func (k idKind) tagFor(subject string) string {
	if !k.dependsOnEvent() {
		return strings.Join(k.parts, ".")
	}
	matched := matchedBy(k.filter, strings.Split(subject, "."))
	out := make([]string, len(k.parts))
	for i, part := range k.parts {
		out[i] = part
		if n, is := parseWildcard(part); is {
			out[i] = matched[n-1]
		}
	}
	return strings.Join(out, ".")
}
