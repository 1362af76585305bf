package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/idworker/idworker/messages"
)

// idKind says which IDs events get: snowflake IDs, or those of a tag, which may be taken
// from the event's subject.
type idKind struct {
	filter []string
	parts  []string // of the tag, by dots; nil means snowflake
}

const segmentKind = "segment:"

// parseID reads "snowflake", or "segment:" and a tag with or without {{wildcard(n)}}.
func parseID(s, filter string) (idKind, error) {
	kind := idKind{filter: strings.Split(filter, ".")}
	if s == "snowflake" {
		return kind, nil
	}
	tag, ok := strings.CutPrefix(s, segmentKind)
	if !ok || tag == "" {
		return kind, bad("kind of ID %q, want snowflake, or segment:TAG", s)
	}
	kind.parts = strings.Split(tag, ".")
	stars := strings.Count(" "+strings.Join(wildcards(kind.filter), " "), "*")
	sample := make([]string, len(kind.parts))
	for i, part := range kind.parts {
		n, isWildcard := wildcardNumber(part)
		switch {
		case !isWildcard:
			sample[i] = part
		case n < 1 || n > stars:
			return kind, bad("%s in the tag, but the filter %q has %d wildcards *", part, filter, stars)
		default:
			sample[i] = "x"
		}
	}
	if err := messages.CheckTag(strings.Join(sample, ".")); err != nil {
		return kind, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return kind, nil
}

// wildcardNumber reads {{wildcard(n)}}.
func wildcardNumber(part string) (int, bool) {
	inner, ok := strings.CutPrefix(part, "{{wildcard(")
	if !ok {
		return 0, false
	}
	number, ok := strings.CutSuffix(inner, ")}}")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil
}

// snowflake reports whether the IDs are snowflake IDs.
func (k idKind) snowflake() bool { return k.parts == nil }

// perEvent reports whether the tag depends on the event.
func (k idKind) perEvent() bool {
	return slices.ContainsFunc(k.parts, func(p string) bool { _, is := wildcardNumber(p); return is })
}

// tag is the tag for an event with that subject; for snowflake IDs it is empty.
func (k idKind) tag(subject string) string {
	if !k.perEvent() {
		return strings.Join(k.parts, ".")
	}
	matched := matchedBy(k.filter, strings.Split(subject, "."))
	out := make([]string, len(k.parts))
	for i, part := range k.parts {
		out[i] = part
		if n, is := wildcardNumber(part); is {
			out[i] = matched[n-1]
		}
	}
	return strings.Join(out, ".")
}

// fetch gets n IDs, in smaller batches if the workers do not give that many at once.
func (k idKind) fetch(ctx context.Context, ids IDs, tag string, n int64) ([]messages.Range, error) {
	var ranges []messages.Range
	for batch := n; n > 0; {
		got, err := k.request(ctx, ids, tag, min(batch, n))
		if errors.Is(err, messages.ErrMalformed) && batch > 1 {
			batch /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		n -= min(batch, n)
		ranges = append(ranges, got...)
	}
	return ranges, nil
}

func (k idKind) request(ctx context.Context, ids IDs, tag string, n int64) ([]messages.Range, error) {
	if k.snowflake() {
		return ids.SnowflakeN(ctx, n)
	}
	return ids.NextN(ctx, tag, n)
}
