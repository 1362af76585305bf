package templates

import (
	"errors"
	"testing"
	"time"
)

// TestEarliest: a tag whose last token is exactly a date of the template's
// format was unused until so long before that date begins. Any other tag may
// always have been used.
func TestEarliest(t *testing.T) {
	t.Parallel()
	const day = 24 * 3600
	for _, c := range []struct {
		format string
		ahead  int64
		tag    string
		want   string // "": unknown
	}{
		{"yyyyMMdd", day, "invoice.20261121", "2026-11-20T00:00:00Z"},
		{"yyyyMMdd", 2 * day, "invoice.20261121", "2026-11-19T00:00:00Z"},
		{"yyyyMMdd", 1, "invoice.eu.20280229", "2028-02-28T23:59:59Z"},
		{"yyyyMM", day, "invoice.202601", "2025-12-31T00:00:00Z"},
		{"yyyy", 366 * day, "invoice.2027", "2025-12-31T00:00:00Z"},
		{"yyMMdd", day, "invoice.261121", "2026-11-20T00:00:00Z"},
		{"yyMM", day, "2612", "2026-11-30T00:00:00Z"},
		{"yy", day, "invoice.27", "2026-12-31T00:00:00Z"},

		{"", 0, "invoice.20261121", ""},
		{"yyyyMMdd", day, "invoice.20270229", ""},
		{"yyyyMMdd", day, "invoice.20261301", ""},
		{"yyyyMMdd", day, "invoice.20261121.x", ""},
		{"yyyyMMdd", day, "invoice.x20261121", ""},
		{"yyyyMMdd", day, "invoice.202611211", ""},
		{"yyyyMMdd", day, "invoice.2026112", ""},
		{"yyyyMMdd", day, "invoice.261121", ""},
		{"yyyyMM", day, "invoice.20261121", ""},
		{"yy", day, "invoice.-1", ""}, // 1999 to package time
		{"yyMM", day, "invoice.-112", ""},
	} {
		dates := Dates{c.format, c.ahead}
		if err := dates.check(); err != nil {
			t.Errorf("%+v: %v", dates, err)
		}
		got := dates.Earliest(c.tag)
		if text := got.Format(time.RFC3339); got.IsZero() != (c.want == "") || c.want != "" && text != c.want {
			t.Errorf("%+v: %s was unused until %s, want %q", dates, c.tag, text, c.want)
		}
	}
}

// TestDatesRefused: a template has both a known format and a time ahead, or
// neither.
func TestDatesRefused(t *testing.T) {
	t.Parallel()
	for _, dates := range []Dates{
		{"", 1}, {"yyyyMMdd", 0}, {"yyyyMMdd", -1}, {"yyyyMMdd", 366*24*3600 + 1},
		{"MMdd", 1}, {"yyyydd", 1}, {"ddMMyyyy", 1}, {"yyyy-MM-dd", 1}, {"YYYYMMDD", 1}, {"yyyyMMddyy", 1},
	} {
		if err := (Template{Pattern: "a.*", Step: 1, Dates: dates}).Check(); !errors.Is(err, ErrTemplate) {
			t.Errorf("%+v: %v, want ErrTemplate", dates, err)
		}
	}
}

// TestJoinKeepsDates: an existing template promises nothing about the tags of a
// list that the list does not promise, too.
func TestJoinKeepsDates(t *testing.T) {
	t.Parallel()
	undated := Template{Pattern: "a.*", Step: 1}
	dated := Template{Pattern: "a.*", Step: 1, Dates: Dates{"yyyyMMdd", 60}}
	earlier := Template{Pattern: "a.*", Step: 1, Dates: Dates{"yyyyMMdd", 61}}
	for _, c := range []struct {
		here, list Template
		refused    bool
	}{
		{dated, dated, false}, {undated, dated, false}, {undated, undated, false},
		{dated, undated, true}, {dated, earlier, true},
	} {
		joined, _, err := List{c.here}.Join(List{c.list})
		if errors.Is(err, ErrTemplate) != c.refused || err == nil && joined[0] != c.here {
			t.Errorf("%+v joined with %+v: %+v, %v", c.here, c.list, joined, err)
		}
	}
}
