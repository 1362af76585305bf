// Package oneline makes a text of any origin, such as a database's message, fit
// for a log, a report, a terminal or a header: one line of bounded length.
package oneline

import (
	"strings"
	"unicode"
)

// more ends a text that was cut.
const more = "…"

// Cut returns text as one line of valid UTF-8. Each run of white space, of
// control characters, and of others that do not print, becomes a space. A text
// of more than most bytes is cut after a word, and ends with an ellipsis.
func Cut(text string, most int) string {
	if len(text) <= most && isPlain(text) {
		return text
	}
	text = text[:min(len(text), 16*max(most, len(more)))] // what is cut off anyway need not be read
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, string(unicode.ReplacementChar)), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) <= most {
		return text
	}
	room := max(0, most-len(more))
	cut := strings.LastIndexByte(text[:room+1], ' ')
	if cut < room/2 { // a script without spaces, or a long word
		cut = len(strings.ToValidUTF8(text[:room], ""))
	}
	return strings.TrimRight(text[:cut], " ,;:") + more
}

// isPlain reports whether a text is printable ASCII.
func isPlain(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
