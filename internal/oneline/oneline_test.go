package oneline_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/idworker/idworker/internal/oneline"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		why, text, want string
		most            int
	}{
		{"empty", "", "", 10},
		{"as it is", "access denied: 'root'  (1045)", "access denied: 'root'  (1045)", 100},
		{"lines and tabs", "\n a:\r\n\tb\n\n\tc ", "a: b c", 100},
		{"a terminal's commands", "red \x1b[31m and \x00 and \u0085 bell\a", "red [31m and and bell", 100},
		{"the direction of text", "user\u202enimda\u2066", "user nimda", 100},
		{"another language", "库存不足\n\t禁止 UPDATE", "库存不足 禁止 UPDATE", 100},
		{"another character set", "\xb2\xbb\xd7\xe3 (1045)", "\ufffd (1045)", 100},
		{"fits exactly", "one two", "one two", 7},
		{"at a word", "one two three four", "one two…", 13},
		{"just before a word", "one two three four", "one two…", 10},
		{"after a comma", "one two, three four", "one two…", 13},
		{"no spaces", "库存不足禁止", "库存不…", 14},
		{"a long word at the end", "denied: " + strings.Repeat("x", 20), "denied…", 14},
		{"a long word at once", "a " + strings.Repeat("x", 20), "a xxxxxxxxx…", 14},
		{"no room", "one two", "…", 2},
	} {
		if got := oneline.Cut(c.text, c.most); got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("库存不足\n\t禁止 UPDATE\xff", 12)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(3, most%1000)
		got := oneline.Cut(text, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n\t\x00\x1b") {
			t.Errorf("%q at most %d: %q", text, most, got)
		}
		if again := oneline.Cut(got, most); again != got {
			t.Errorf("%q, and again %q", got, again)
		}
	})
}
