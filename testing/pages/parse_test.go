package pages

import (
	"slices"
	"strings"
	"testing"
)

const example = `# A page

In terminal 2:

~~~console
$ first \
    --more
one
…
^C
bye
$ second
~~~

<!-- not run: why; tested in testing/pages/parse_test.go -->
~~~
$ third
~~~

## Same, and more

See [that](other.md#there).

## Same, and more

    make fourth
`

func exampleBlocks() []Block {
	return Parse("example.md", strings.ReplaceAll(example, "~~~", "```")).Blocks
}

func TestParse(t *testing.T) {
	t.Parallel()
	p := Parse("example.md", strings.ReplaceAll(example, "~~~", "```"))
	if want := []string{"a-page", "same-and-more", "same-and-more-1"}; !slices.Equal(p.Anchors, want) {
		t.Errorf("anchors %q, want %q", p.Anchors, want)
	}
	if len(p.Links) != 1 || p.Links[0].Target != "other.md#there" {
		t.Errorf("links %v", p.Links)
	}
	if len(p.Blocks) != 3 {
		t.Fatalf("%d blocks: %+v", len(p.Blocks), p.Blocks)
	}
	for i, b := range p.Blocks {
		if !b.HasCommands() || (b.NotRun != "") != (i == 1) {
			t.Errorf("block %d: %+v", i, b)
		}
	}
	if p.Blocks[0].Terminal != 2 || p.Blocks[1].Terminal != 0 {
		t.Errorf("terminals %d and %d", p.Blocks[0].Terminal, p.Blocks[1].Terminal)
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	blocks := exampleBlocks()
	steps, err := blocks[0].Steps()
	if err != nil || len(steps) != 2 {
		t.Fatalf("%+v, %v", steps, err)
	}
	first := steps[0]
	if first.Command != "first \\\n    --more" || !slices.Equal(first.Output, []string{"one", "…"}) || !first.Interrupt || !slices.Equal(first.After, []string{"bye"}) {
		t.Errorf("%+v", first)
	}
	if _, err := blocks[2].Steps(); err == nil {
		t.Error("a command without a prompt is taken")
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		page, printed string
		vary, want    bool
	}{
		{"101", "101", false, true},
		{"101", "103", false, true}, // two answers were lost
		{"101", "100", false, false},
		{"101", "122", false, false},
		{"101 IDs", "103 IDs", false, false},
		{"101", "102", true, true},
		{"101", "", false, false},
		{"", "101", false, false},
		{"A  B", "A B", false, true},
		{"249720120363065360", "249720120363065361", false, true},
		{"0.2.0 (commit 8e4c0cc, 2026-11-25)", "0.2.0", false, true},
		{"at 2026-11-21T04:52:28.757Z", "at 2027-01-01T00:00:00Z", false, true},
		{"held by zyYyTe7mo6PwIYwNCfLAO1", "held by VVZj6stEPkQW3pm5a287IH", false, true},
		{"took 1.5 s", "took 20 ms", false, true},
		{"a\n…\nd", "a\nb\nc\nd", false, true},
		{"a\n…\nd", "a\nb\nc\ne", false, false},
		{"refused: …", "refused: no right", false, true},
		{"< 32.8µs 241 █\n< 65.5µs 50 ███", "< 1.05ms 3 █", true, true},
	} {
		lines := func(text string) []string {
			if text == "" {
				return nil
			}
			return strings.Split(text, "\n")
		}
		if got := Matches(lines(test.page), lines(test.printed), test.vary); got != test.want {
			t.Errorf("the page says %q, printed is %q: %v, want %v", test.page, test.printed, got, test.want)
		}
	}
	if Within([]string{"b", "a"}, []string{"a", "b"}, false) || !Within([]string{"a", "c"}, []string{"a", "b", "c", "d"}, false) {
		t.Error("Within looks at the order, and lets others between")
	}
}
