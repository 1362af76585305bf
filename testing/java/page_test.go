package java

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// quoted is a block of Java on a page, with the file that it's from.
var quoted = regexp.MustCompile("(?s)<!-- from: (\\S+) -->\n *```java\n(.*?)\n *```")

// TestPage: the Java on the page is from files that the reactor compiles and
// tests. The page may leave out lines, where it has an empty line.
func TestPage(t *testing.T) {
	const root = "../../"
	page, err := os.ReadFile(root + "docs/java.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := quoted.FindAllStringSubmatch(string(page), -1)
	if n := strings.Count(string(page), "```java"); n == 0 || n != len(blocks) {
		t.Errorf("%d of %d blocks of Java have a comment with the file they are from", len(blocks), n)
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
