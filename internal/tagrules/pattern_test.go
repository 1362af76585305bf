package tagrules

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
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

// randomName has few tokens of few kinds, so that names often have to do with each other.
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

// TestPatternsAsSets: what is said of two patterns is what their tags say, over all tags of up to five tokens.
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
			inA, inB := Matches(a, tag), Matches(b, tag)
			if inA != matchesSlowly(a, tag) {
				t.Fatalf("%s matches %s: %t", a, tag, inA)
			}
			common = common || inA && inB
			within = within && (inA || !inB)
		}
		if Overlap(a, b) != common {
			t.Errorf("%s and %s overlap: %t, their tags say %t", a, b, Overlap(a, b), common)
		}
		if covers(a, b) != within {
			t.Errorf("%s covers %s: %t, their tags say %t", a, b, covers(a, b), within)
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

// TestMostSpecificCounts: of the templates that go with each other, the one that is found matches,
// and all others that do cover it. Of those that do not go with each other, one is refused.
func TestMostSpecificCounts(t *testing.T) {
	t.Parallel()
	refused := 0
	for range 500 {
		var all templates
		for range 12 {
			pattern := randomName("ab*>")
			if !IsPattern(pattern) {
				continue
			}
			more, err := all.add(Template{Pattern: pattern, Step: 1, Order: Trend})
			switch {
			case errors.Is(err, ErrOverlap):
				refused++
			case err == nil:
				all = more
			case !errors.Is(err, ErrTemplateExists):
				t.Fatal(err)
			}
		}
		r := newRules()
		r.setTemplates(all)
		for range 50 {
			tag := randomName("abx")
			checkMostSpecific(t, all, r.Lookup(tag).Template, tag)
		}
	}
	if refused == 0 {
		t.Error("no overlap was refused")
	}
}

func checkMostSpecific(t *testing.T, all templates, found *Template, tag string) {
	t.Helper()
	if found != nil && !Matches(found.Pattern, tag) {
		t.Fatalf("%s: found %s", tag, found.Pattern)
	}
	for _, other := range all {
		if Matches(other.Pattern, tag) && (found == nil || !covers(other.Pattern, found.Pattern)) {
			t.Fatalf("%s: found %v, but %s matches too, of %v", tag, found, other.Pattern, all)
		}
	}
}

// TestLookupAllocatesNothing, since it is made for requests.
func TestLookupAllocatesNothing(t *testing.T) {
	r := newRules()
	r.setTemplates(templates{{Pattern: "chat.*.>", Step: 1, Order: Strict}, {Pattern: "*.*.x", Step: 1}})
	r.setOrder("chat.a.b", Trend)
	if n := testing.AllocsPerRun(100, func() { _ = r.Lookup("chat.a.b") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTooManyTemplates(t *testing.T) {
	t.Parallel()
	var all templates
	for i := range MaxTemplates {
		all = append(all, Template{Pattern: fmt.Sprint("t", i, ".*"), Step: 1, Order: Trend})
	}
	if _, err := all.add(Template{Pattern: "x.*", Step: 1, Order: Trend}); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v, want ErrTooMany", err)
	}
	value := all.encode()
	if again, err := decodeTemplates(value); err != nil || len(again) != MaxTemplates {
		t.Errorf("%d templates, %v", len(again), err)
	}
	if worst := MaxTemplates * (messages.MaxTagLen + 150); len(value) > worst || worst > 512<<10 {
		t.Errorf("the entry has %d bytes, at worst %d", len(value), worst)
	}
}

// TestAnyStrict: whether any tag is strict is known whatever orders are set, again, changed and dropped, and
// whichever templates there are.
func TestAnyStrict(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, own := newRules(), make(map[string]Order)
		template := false
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.IntRange(0, 4).Draw(t, "of a template") == 0 {
				order := rapid.SampledFrom([]Order{Trend, Strict}).Draw(t, "order")
				removed := rapid.Bool().Draw(t, "removed")
				r.setTemplates(templates{{Pattern: "chat.*", Step: 1, Order: order, Removed: removed}})
				template = order == Strict && !removed
			} else {
				tag := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tag")
				own[tag] = rapid.SampledFrom([]Order{Trend, Strict, ""}).Draw(t, "order")
				r.setOrder(tag, own[tag])
			}
			if want := template || own["a"] == Strict || own["b"] == Strict; r.AnyStrict() != want {
				t.Fatalf("any is strict: %v, but orders are %v, and a template is strict: %v", r.AnyStrict(), own, template)
			}
		}
	})
}
