package templates

import (
	"fmt"
	"strings"
	"time"
)

// Dates promise that no tag of a template was or will be used more than Ahead
// seconds before its date begins, at 00:00 UTC of its first day. So tags of
// later dates begin at the template's first ID even after a raise of all tags.
// The zero value promises nothing.
type Dates struct {
	// Dated is the format of the date, which is the last token of the name: one
	// of those in layouts. "" means no date.
	Dated string `json:"dated,omitempty"`
	Ahead int64  `json:"ahead,omitempty"` // seconds, 1 to 366 days
}

// DefaultAhead covers callers that use today's date of their own time zone: it
// begins at most 14 hours before 00:00 UTC. Callers that use tomorrow's need
// 48 hours. After a raise, a longer time keeps more of the future tags from
// beginning at 1.
const DefaultAhead = 24 * time.Hour

const maxAhead = 366 * 24 * time.Hour

// layouts are the date formats in the notation of package time.
var layouts = map[string]string{
	"yyyyMMdd": "20060102", "yyyyMM": "200601", "yyyy": "2006",
	"yyMMdd": "060102", "yyMM": "0601", "yy": "06",
}

// check returns an error that wraps [ErrTemplate] if a field is out of bounds.
func (d Dates) check() error {
	switch {
	case d == Dates{}:
		return nil
	case layouts[d.Dated] == "":
		return fmt.Errorf("%w: date format %.40q, allowed are yyyyMMdd, yyyyMM, yyyy, yyMMdd, yyMM and yy", ErrTemplate, d.Dated)
	case d.Ahead < 1 || d.Ahead > int64(maxAhead/time.Second):
		return fmt.Errorf("%w: dates used %d seconds ahead, allowed is 1 to %d", ErrTemplate, d.Ahead, int64(maxAhead/time.Second))
	}
	return nil
}

// Earliest returns the time before which a tag was not used, or zero if its
// last token is not a date of the format.
func (d Dates) Earliest(tag string) time.Time {
	date := tag[strings.LastIndexByte(tag, '.')+1:]
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	begins, err := time.Parse(layouts[d.Dated], date)
	if err != nil || strings.TrimFunc(date, isDigit) != "" { // package time parses the year -1
		return time.Time{}
	}
	return begins.Add(-time.Duration(d.Ahead) * time.Second)
}
