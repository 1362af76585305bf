package clients

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPages: the code on the pages of clients is from files that their tests
// compile and run. A page may leave out lines, where it has an empty line.
func TestPages(t *testing.T) {
	for _, language := range []string{"java", "typescript", "python"} {
		t.Run(language, func(t *testing.T) { checkPage(t, language) })
	}
}

func checkPage(t *testing.T, language string) {
	const root = "../../"
	page, err := os.ReadFile(root + "docs/" + language + ".md")
	if err != nil {
		t.Fatal(err)
	}
	// A block of code, with the file that it's from.
	quoted := regexp.MustCompile("(?s)<!-- from: (\\S+) -->\n *```" + language + "\n(.*?)\n *```")
	blocks := quoted.FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(string(page), "```"+language); n == 0 || n != len(blocks) {
		t.Errorf("%d of %d blocks of code have a comment with the file they are from", len(blocks), n)
	}
	for _, b := range blocks {
		source, err := os.ReadFile(root + b[1])
		if err != nil {
			t.Error(err)
			continue
		}
		rest := unindented(string(source))
		for part := range strings.SplitSeq(unindented(b[2]), "\n\n") {
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s lacks, in this order:\n%s", b[1], part)
				continue
			}
			rest = after
		}
	}
}

// unindented is text without the blanks that its lines begin with.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
