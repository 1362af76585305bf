package pages

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rewrite is text that is not the same each time, and a word for it.
type rewrite struct {
	pattern *regexp.Regexp
	with    string
}

var always = []rewrite{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| UTC)?`), "TIME"},
	{regexp.MustCompile(`\b[0-9A-Za-z]{22}\b`), "INSTANCE"},
	{regexp.MustCompile(`\b[0-9]{15,19}\b`), "SNOWFLAKE"},
	{regexp.MustCompile(`(version"?:? "?)[^ ",]+`), "${1}VERSION"},
	{regexp.MustCompile(` \(commit [0-9a-f]{7}[^)]*\)`), ""}, // a reader has a checkout, TestPages a copy without .git
	{regexp.MustCompile(`[+-]?\b\d+(?:\.\d+)? ?(?:ns|µs|ms|s|min|h)\b`), "DURATION"},
}

// figures are numbers that vary where the page declares it, and bars.
var figures = []rewrite{
	{regexp.MustCompile(`\d[\d,.]*`), "N"},
	{regexp.MustCompile(`█+`), ""},
}

var spaces = regexp.MustCompile(`\s+`)

// stable removes from a line all that varies: times, durations, instances,
// snowflake IDs, versions, the host's name (vm on the pages), and the widths of
// columns.
func stable(line string, vary bool) string {
	if host, err := os.Hostname(); err == nil && host != "" {
		line = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(line, "vm")
	}
	rewrites := always
	if vary {
		rewrites = append(rewrites[:len(rewrites):len(rewrites)], figures...)
	}
	for _, r := range rewrites {
		line = r.pattern.ReplaceAllString(line, r.with)
	}
	return strings.TrimSpace(spaces.ReplaceAllString(line, " "))
}

// Matches reports whether a command printed the output that the page shows.
// Where figures vary, so does the number of lines that have nothing else, as in
// a histogram.
func Matches(page, printed []string, vary bool) bool {
	if vary {
		page, printed = once(page), once(printed)
	}
	pattern := make([]*regexp.Regexp, len(page))
	for i, line := range page {
		parts := strings.Split(stable(line, vary), "…")
		for j := range parts {
			parts[j] = regexp.QuoteMeta(parts[j])
		}
		pattern[i] = regexp.MustCompile(`^` + strings.Join(parts, ".*") + `$`)
	}
	lines := make([]string, len(printed))
	for i, line := range printed {
		lines[i] = stable(line, vary)
	}
	return match(page, pattern, lines)
}

// once drops lines that equal the line before, except for figures.
func once(lines []string) []string {
	return slices.CompactFunc(slices.Clone(lines), func(a, b string) bool { return stable(a, true) == stable(b, true) })
}

func match(page []string, pattern []*regexp.Regexp, lines []string) bool {
	for i := range page {
		if page[i] == "…" {
			for skip := range len(lines) + 1 {
				if match(page[i+1:], pattern[i+1:], lines[skip:]) {
					return true
				}
			}
			return false
		}
		if len(lines) == 0 || !pattern[i].MatchString(lines[0]) && !gap(page[i], lines[0]) {
			return false
		}
		lines = lines[1:]
	}
	return len(lines) == 0
}

// gap reports whether both lines are an ID each, and the one that was printed
// is a little greater: a request whose answer was lost has used up an ID.
func gap(page, printed string) bool {
	want, errWant := strconv.ParseInt(strings.TrimSpace(page), 10, 64)
	got, errGot := strconv.ParseInt(printed, 10, 64)
	return errWant == nil && errGot == nil && want < got && got-want <= 20
}

// Within reports whether the page's lines were printed in their order, possibly
// among others: a command that stays may print more.
func Within(page, printed []string, vary bool) bool {
	among := []string{"…"}
	for _, line := range page {
		among = append(among, line, "…")
	}
	return Matches(among, printed, vary)
}
