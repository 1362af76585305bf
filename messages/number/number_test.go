package number_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/number"
	"github.com/idworker/idworker/testing/vectors"
)

// TestNoNumberComesTwice: of every format of up to five parts, a number has one
// tag and one ID, and is read back. The dates and IDs are chosen to look alike.
func TestNoNumberComesTwice(t *testing.T) {
	t.Parallel()
	var dates []time.Time
	for _, text := range []string{"1112-01-01", "1112-11-12", "1111-11-11", "1111-12-11", "2012-11-11"} {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		dates = append(dates, at)
	}
	ids := []int64{1, 2, 11, 12, 111, 1112, 111211}
	accepted := 0
	formats := []string{""}
	for range 5 {
		var longer []string
		for _, before := range formats {
			for _, part := range []string{"1", "{yyyy}", "{yy}", "{MM}", "{dd}", "{seq}", "{seq:2}"} {
				longer = append(longer, before+part)
				if f, err := number.NewFormat("t", before+part, time.UTC); err == nil {
					accepted++
					checkUnique(t, f, before+part, dates, ids)
				} else if !errors.Is(err, number.ErrFormat) {
					t.Fatalf("%s: %v", before+part, err)
				}
			}
		}
		formats = longer
	}
	if accepted != 2*15+4*(40+90+144) { // widths of the ID and year, and their places with no date, y, yM, yMd
		t.Errorf("%d formats were accepted", accepted)
	}
}

// checkUnique: each number is of one tag and ID, and Parse returns them.
func checkUnique(t *testing.T, f *number.Format, format string, dates []time.Time, ids []int64) {
	t.Helper()
	type origin struct {
		tag string
		id  int64
	}
	had := make(map[string]origin)
	for _, at := range dates {
		tag, err := f.Tag(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			text, err := f.Number(at, id)
			if err != nil {
				t.Fatal(err)
			}
			this := origin{tag, id}
			if other, again := had[text]; again && other != this {
				t.Fatalf("%s: DUPLICATE %s, of %v and %v", format, text, other, this)
			}
			had[text] = this
			if got, err := f.Parse(text); err != nil || got.Tag() != tag || got.Seq != id {
				t.Fatalf("%s: %s of %v is read as %+v, %v", format, text, this, got, err)
			}
		}
	}
}

// TestAnyNumberIsReadBack: any format, zone, time and ID.
func TestAnyNumberIsReadBack(t *testing.T) {
	t.Parallel()
	zones := []*time.Location{time.UTC, time.FixedZone("", 14*3600), time.FixedZone("", -12*3600)}
	rapid.Check(t, func(t *rapid.T) {
		date := rapid.SampledFrom([][]string{{}, {"yyyy"}, {"yy"}, {"yyyy", "MM"}, {"yy", "MM"}, {"yyyy", "MM", "dd"}, {"yy", "MM", "dd"}}).Draw(t, "date")
		parts := []string{"{" + rapid.StringMatching(`seq(:[1-9]|:1[0-9])?`).Draw(t, "seq") + "}"}
		for _, token := range date {
			parts = append(parts, "{"+token+"}")
		}
		text := rapid.StringMatching(`[ -z0-9é]{0,9}`)
		format := text.Draw(t, "text")
		for _, part := range rapid.Permutation(parts).Draw(t, "parts") {
			format += part + text.Draw(t, "text")
		}
		f, err := number.NewFormat("t", format, rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Dated() != strings.Join(date, "") {
			t.Fatalf("%s: dates %s", format, f.Dated())
		}
		at := time.Unix(rapid.Int64Range(-62_135_500_000, 253_402_200_000).Draw(t, "at"), 0) // years 1 to 9999
		id := rapid.Int64Min(1).Draw(t, "ID")
		made, err := f.Number(at, id)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := f.Tag(at)
		if err != nil || messages.CheckTag(tag) != nil {
			t.Fatalf("%s: %v, %v", tag, err, messages.CheckTag(tag))
		}
		if got, err := f.Parse(made); err != nil || got.Tag() != tag || got.Seq != id {
			t.Fatalf("%s: %s of %s is read as %+v, %v", format, made, tag, got, err)
		}
	})
}

// FuzzFormat: any text is a format or refused with its own error, and a text that
// is read as a number is exactly what the format makes of it.
func FuzzFormat(f *testing.F) {
	for _, v := range vectors.Read[vector](f, "../testdata/vectors.json", "numbers") {
		text := v.Number
		if v.Parse != nil {
			text = *v.Parse
		}
		f.Add(v.Base, v.Format, text, v.Seq)
	}
	f.Fuzz(func(t *testing.T, base, format, text string, id int64) {
		made, err := number.NewFormat(base, format, time.UTC)
		if err != nil {
			if errors.Is(err, number.ErrFormat) == errors.Is(err, messages.ErrTag) {
				t.Fatalf("%q: %v", format, err)
			}
			return
		}
		got, err := made.Parse(text)
		if err == nil {
			if again, err := made.Number(dayOf(t, made.Dated(), got.Period), got.Seq); err != nil || again != text {
				t.Fatalf("%q is read as %+v, which is %q, %v", text, got, again, err)
			}
		} else if !errors.Is(err, number.ErrNumber) {
			t.Fatalf("%q: %v", text, err)
		}
		again, err := made.Number(time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC), id)
		if (err == nil) != (id > 0) {
			t.Fatalf("ID %d: %v", id, err)
		}
		if got, wrong := made.Parse(again); err == nil && (wrong != nil || got.Seq != id) {
			t.Fatalf("%q is read as %+v, %v", again, got, wrong)
		}
	})
}

// dayOf returns the noon of a period's first day.
func dayOf(t *testing.T, dated, period string) time.Time {
	t.Helper()
	if dated == "" {
		return time.Time{}
	}
	if strings.Count(dated, "y") == 2 {
		period = "20" + period
	}
	at, err := time.Parse("20060102", (period + "0101")[:8])
	if err != nil {
		t.Fatal(err)
	}
	return at.Add(12 * time.Hour) // the year 1 begins with the zero time
}

// TestZones: a format needs a zone by name.
func TestZones(t *testing.T) {
	t.Parallel()
	for _, zone := range []*time.Location{nil, time.Local} {
		if _, err := number.NewFormat("t", "{seq}", zone); !errors.Is(err, number.ErrZone) {
			t.Errorf("%v: %v, want ErrZone", zone, err)
		}
	}
}

// counter issues IDs of any tag, from 1 on, or fails.
type counter struct {
	tags []string // of the calls
	next int64
	err  error
}

func (c *counter) Next(ctx context.Context, tag string) (int64, error) {
	ranges, err := c.NextN(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	return ranges[0].First, nil
}

func (c *counter) NextN(_ context.Context, tag string, n int64) ([]messages.Range, error) {
	c.tags = append(c.tags, tag)
	if c.err != nil {
		return nil, c.err
	}
	first := c.next + 1
	c.next += n + 1 // with a gap
	return []messages.Range{{First: first, Last: first}, {First: first + 2, Last: first + n}}[:min(n, 2)], nil
}

// TestNext: numbers come from the tag of the document's date, and errors of the
// client stay what they are.
func TestNext(t *testing.T) {
	t.Parallel()
	f, err := number.NewFormat("invoice", "INV-{yyyyMMdd}-{seq:3}", time.FixedZone("", 8*3600))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 26, 16, 0, 0, 0, time.UTC) // tomorrow there
	c := new(counter)
	one, err := f.Next(t.Context(), c, at)
	if err != nil || one != "INV-20261127-001" {
		t.Errorf("%s, %v", one, err)
	}
	many, err := f.NextN(t.Context(), c, at, 3)
	if want := []string{"INV-20261127-003", "INV-20261127-005", "INV-20261127-006"}; err != nil || !slices.Equal(many, want) {
		t.Errorf("%v, %v; want %v", many, err, want)
	}
	if !slices.Equal(c.tags, []string{"invoice.20261127", "invoice.20261127"}) {
		t.Errorf("calls for %v", c.tags)
	}
	for name, call := range map[string]func(c *counter, at time.Time) error{
		"Next":  func(c *counter, at time.Time) error { _, err := f.Next(t.Context(), c, at); return err },
		"NextN": func(c *counter, at time.Time) error { _, err := f.NextN(t.Context(), c, at, 2); return err },
	} {
		if err := call(&counter{err: messages.ErrNoTag}, at); !errors.Is(err, messages.ErrNoTag) {
			t.Errorf("%s: %v, want the client's error", name, err)
		}
		unused := new(counter)
		if err := call(unused, time.Time{}); !errors.Is(err, number.ErrDate) || unused.tags != nil {
			t.Errorf("%s without a date: %v, calls for %v", name, err, unused.tags)
		}
		if err := call(&counter{next: -2}, at); !errors.Is(err, number.ErrSeq) {
			t.Errorf("%s with an ID below 1: %v", name, err)
		}
	}
}
