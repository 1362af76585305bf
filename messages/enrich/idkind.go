package enrich

import (
	"fmt"
	"slices"
	"strings"

	"github.com/idworker/idworker/messages"
)

// idKind says which IDs events get: snowflake IDs, or those of a tag, which may depend on
// the event's subject.
type idKind struct {
	filter    []string
	tag       []string    // tokens; nil means snowflake IDs
	wildcards map[int]int // which of the tokens stand for what which * of the filter matched
}

// parseIDKind reads "snowflake", or "segment:" and a tag with or without {{wildcard(n)}}.
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
			return kind, configError("%s in the tag, but the filter %q has %d wildcards *", part, filter, stars)
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

// tagFor returns the tag for an event with that subject, empty for snowflake IDs.
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
