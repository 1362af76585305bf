package verify

import (
	"slices"
	"strconv"
	"strings"
)

// template makes subjects and tags from the tokens that the wildcards of a filter matched.
type template struct {
	filter []string // tokens
	to     []string
	tag    []string // nil: one space of IDs for all events
}

const segmentKind = "segment:"

// newTemplate takes settings that were checked.
func newTemplate(filter, to, id string) template {
	t := template{filter: strings.Split(filter, "."), to: strings.Split(to, ".")}
	if tag, ok := strings.CutPrefix(id, segmentKind); ok && strings.Contains(tag, "{{") {
		t.tag = strings.Split(tag, ".")
	}
	return t
}

// matched lists what each wildcard of a pattern stands for in a subject, the rest for >. ok is
// false if the subject does not match.
func matched(pattern []string, subject string) (found []string, ok bool) {
	tokens := strings.Split(subject, ".")
	for i, p := range pattern {
		switch {
		case i >= len(tokens):
			return nil, false
		case p == ">":
			return append(found, strings.Join(tokens[i:], ".")), true
		case p == "*":
			found = append(found, tokens[i])
		case p != tokens[i]:
			return nil, false
		}
	}
	return found, len(tokens) == len(pattern)
}

// subject is where an event on a subject of the source goes.
func (t template) subject(source string) string {
	found, _ := matched(t.filter, source)
	out := make([]string, len(t.to))
	for i, token := range t.to {
		if out[i] = token; (token == "*" || token == ">") && len(found) > 0 {
			out[i], found = found[0], found[1:]
		}
	}
	return strings.Join(out, ".")
}

// takes reports whether events go to a subject of the target.
func (t template) takes(target string) bool {
	_, ok := matched(t.to, target)
	return ok
}

// tagOf is the tag of an event by its subject in the target. ok is false if that does not say.
func (t template) tagOf(target string) (tag string, ok bool) {
	if t.tag == nil {
		return "", true
	}
	found, ok := matched(t.to, target)
	if !ok || !slices.ContainsFunc(t.to, func(s string) bool { return s == "*" || s == ">" }) {
		return "", false
	}
	return t.expand(found), true
}

// tag is the tag of an event by its subject in the source.
func (t template) tagFor(source string) string {
	if t.tag == nil {
		return ""
	}
	found, _ := matched(t.filter, source)
	return t.expand(found)
}

// expand replaces {{wildcard(n)}} in the tag.
func (t template) expand(found []string) string {
	out := make([]string, len(t.tag))
	for i, part := range t.tag {
		out[i] = part
		if inner, ok := strings.CutPrefix(part, "{{wildcard("); ok {
			if n, err := strconv.Atoi(strings.TrimSuffix(inner, ")}}")); err == nil && n >= 1 && n <= len(found) {
				out[i] = found[n-1]
			}
		}
	}
	return strings.Join(out, ".")
}
