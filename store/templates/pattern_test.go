package templates

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

func TestCheckPattern(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"*", ">", "chat.*", "chat.>", "*.*", "a.*.b", "a.*.>", strings.Repeat("a", 126) + ".*"} {
		if err := CheckPattern(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "chat", "chat.x", "chat.", ".*", "a..*", "a*", "a.*b", ">.a", "a.>.b", "a.>b", "a b.*", strings.Repeat("a", 127) + ".*"} {
		if err := CheckPattern(bad); !errors.Is(err, ErrPattern) {
			t.Errorf("%q: %v, want ErrPattern", bad, err)
		}
	}
}

// randomName has few tokens of few kinds, so that names often overlap.
func randomName(tokens string) string {
	parts := make([]string, 1+rand.IntN(3))
	for i := range parts {
		parts[i] = string(tokens[rand.IntN(len(tokens))])
		if parts[i] == ">" && i < len(parts)-1 {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

// TestPatternsAsSets compares the relations of two patterns with the sets of
// their tags of up to five tokens.
func TestPatternsAsSets(t *testing.T) {
	t.Parallel()
	var tags []string
	for level := []string{"a", "b", "x"}; len(level) < 400; {
		tags = append(tags, level...)
		var next []string
		for _, tag := range level {
			next = append(next, tag+".a", tag+".b", tag+".x")
		}
		level = next
	}
	for range 3000 {
		a, b := randomName("ab*>"), randomName("ab*>")
		common, within := false, true
		for _, tag := range tags {
			inA, inB := subject.Covers(a, tag), subject.Covers(b, tag)
			if inA != matchesSlowly(a, tag) {
				t.Fatalf("%s matches %s: %t", a, tag, inA)
			}
			common = common || inA && inB
			within = within && (inA || !inB)
		}
		if subject.Overlap(a, b) != common {
			t.Errorf("%s and %s overlap: %t, their tags say %t", a, b, subject.Overlap(a, b), common)
		}
		if subject.Covers(a, b) != within {
			t.Errorf("%s covers %s: %t, their tags say %t", a, b, subject.Covers(a, b), within)
		}
		if within && a != b && specificity(a) <= specificity(b) {
			t.Errorf("%s covers %s, and sorts before it", a, b)
		}
	}
}

func matchesSlowly(pattern, tag string) bool {
	p, t := strings.Split(pattern, "."), strings.Split(tag, ".")
	for i, token := range p {
		if token == ">" {
			return len(t) > i
		}
		if i >= len(t) || token != "*" && token != t[i] {
			return false
		}
	}
	return len(p) == len(t)
}

// TestMostSpecificCounts: of compatible templates, Find returns a template that
// matches, and all others that match cover it.
func TestMostSpecificCounts(t *testing.T) {
	t.Parallel()
	refused := 0
	for range 500 {
		var l List
		for range 12 {
			pattern := randomName("ab*>")
			if !IsPattern(pattern) {
				continue
			}
			more, err := l.With(Template{Pattern: pattern, Step: 1})
			switch {
			case errors.Is(err, ErrOverlap):
				refused++
			case err == nil:
				l = more
			case !errors.Is(err, ErrTemplateExists):
				t.Fatal(err)
			}
		}
		for range 50 {
			tag := randomName("abx")
			checkMostSpecific(t, l, l.Find(tag), tag)
		}
	}
	if refused == 0 {
		t.Error("no overlap was refused")
	}
}

func checkMostSpecific(t *testing.T, l List, found *Template, tag string) {
	t.Helper()
	if found != nil && !subject.Covers(found.Pattern, tag) {
		t.Fatalf("%s: found %s", tag, found.Pattern)
	}
	for _, other := range l {
		if subject.Covers(other.Pattern, tag) && (found == nil || !subject.Covers(other.Pattern, found.Pattern)) {
			t.Fatalf("%s: found %v, but %s matches too, of %v", tag, found, other.Pattern, l)
		}
	}
}

// TestRoom: a template has room for a tag's first segment, whether it is new,
// imported, changed or read.
func TestRoom(t *testing.T) {
	t.Parallel()
	fits := Template{Pattern: "a.*", Step: 2, First: math.MaxInt64 - 2, Order: store.Trend}
	full := fits
	full.First++
	l, err := List{}.With(fits)
	if err != nil {
		t.Fatal(err)
	}
	_, with := List{}.With(full)
	_, _, join := l.Join(List{full})
	_, change := l.change("a.*", func(t *Template) { t.Step = 3 })
	value, err := json.Marshal(List{full})
	if err != nil {
		t.Fatal(err)
	}
	_, read := Decode(value)
	for what, err := range map[string]error{"new": with, "imported": join, "changed": change, "read": read} {
		if !errors.Is(err, ErrTemplate) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTooManyTemplates(t *testing.T) {
	t.Parallel()
	var l List
	for i := range MaxTemplates {
		l = append(l, Template{Pattern: fmt.Sprint("t", i, ".*"), Step: 1, Order: store.Trend})
	}
	if _, err := l.With(Template{Pattern: "x.*", Step: 1}); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v, want ErrTooMany", err)
	}
	value, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Decode(value); err != nil || len(again) != MaxTemplates {
		t.Errorf("%d templates, %v", len(again), err)
	}
	if worst := MaxTemplates * (messages.MaxTagLen + 150); len(value) > worst || worst > 512<<10 {
		t.Errorf("the entry has %d bytes, at worst %d", len(value), worst)
	}
}
