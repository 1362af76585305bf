// Package format formats numbers, durations and names for people.
package format

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// Duration formats seconds: 45 s, 12 min, 3.5 h.
func Duration(seconds float64) string {
	const minute, hour, day = 60, 3600, 24 * 3600
	switch {
	case seconds < 10:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 2*minute:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*hour:
		return fmt.Sprintf("%.0f min", seconds/minute)
	case seconds < 2*day:
		return fmt.Sprintf("%.0f h", seconds/hour)
	case seconds < 364*day:
		return fmt.Sprintf("%.0f days", seconds/day)
	}
	return "a year"
}

// Rate formats IDs per second.
func Rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprint(math.Round(100*perSecond) / 100)
	}
	// Bounded, because a process may report any number.
	return Count(uint64(min(perSecond+0.5, 1<<62)))
}

// Count formats an integer, with commas between thousands.
func Count(n any) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Of formats a number, or the text of one, with its noun: 1 tag, 2 tags.
func Of(n any, noun string) string {
	text, ok := n.(string)
	if !ok {
		text = Count(n)
	}
	if text != "1" {
		noun += "s"
	}
	return text + " " + noun
}

// Printable replaces unprintable characters by ?: those that control a
// terminal, change the direction of text, or are invalid.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
