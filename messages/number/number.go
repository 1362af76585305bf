// Package number turns IDs of tags into numbers of documents, such as
// TCK-20261126-000001, that begin again each day, month or year:
//
//	zone, err := time.LoadLocation("Asia/Shanghai")
//	tickets, err := number.NewFormat("ticket", "TCK-{yyyyMMdd}-{seq:6}", zone)
//	text, err := tickets.Next(ctx, client, time.Now())
//
// Each period has a tag of its own, here ticket.20261126. A template creates
// them at their first request:
//
//	idworker tag create 'ticket.*' --template --dated yyyyMMdd --order strict
//
// Numbers of a strict tag ascend within a period. There is no order between the
// numbers of two periods, because the clocks of callers differ.
//
// Numbers have gaps: each reply that is lost or comes too late loses its
// numbers, and so does an application that does not use what it got. So they are
// for orders, tickets or shipments. If the law requires invoices without gaps,
// let the database count them, in the transaction that inserts the invoice;
// docs/callers.md shows how.
//
// # No two documents have one number
//
// A number shows all the digits that its tag ends with, and the ID. Only the ID
// varies in width, and it occurs once. So the length of a number determines where
// each of its fields begins, even if no text lies between them: a number has
// one date and one ID, which [Format.Parse] returns. Two documents with the same
// number would have the same tag and the same ID, and no tag issues an ID twice.
//
// For yy, the tag of a year comes back after a century. Its counter goes on, so
// its numbers do not begin again then.
//
// This holds for the numbers of one format. Numbers of two formats may be equal,
// as those of {yyyy}{seq:4} and {yyyyMM}{seq:2}: give each base one format for
// life, and each format some text that no other has.
package number

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// MaxFormatLen is the maximum length of a format in bytes. It keeps numbers
// shorter than the columns that usually hold them.
const MaxFormatLen = 100

// maxPad is the largest N of {seq:N}: the largest ID, 2^63−1, has 19 digits.
const maxPad = 19

// The errors of this package. An error that wraps one of them is permanent: the
// same call fails again.
var (
	ErrFormat = problem.New(problem.Invalid, "bad format of numbers")
	ErrZone   = problem.New(problem.Invalid, "bad time zone")
	ErrDate   = problem.New(problem.Invalid, "bad date")
	ErrSeq    = problem.New(problem.Invalid, "bad sequence number")
	// ErrNumber reports a text that no document of the format has.
	ErrNumber = problem.New(problem.Invalid, "no number of this format")
)

// Issuer issues the IDs of tags, as [messages.Client] does.
type Issuer interface {
	Next(ctx context.Context, tag string) (int64, error)
	NextN(ctx context.Context, tag string, n int64) ([]messages.Range, error)
}

// Format makes the numbers of one kind of document, and reads them. It is safe
// for concurrent use.
type Format struct {
	base  string
	zone  *time.Location
	text  string
	parts []part
	fixed int // bytes of all parts but the ID
	dated string
}

// part is a part of a number.
type part struct {
	field field
	text  string // of a literal
	width int    // digits; of an ID, the fewest
}

type field int

const (
	literal field = iota
	year
	month
	day
	seq
)

// digits are the digits of each field of a date, "" for fields that the format
// lacks.
type digits [day + 1]string

// join returns the digits in the order year, month, day.
func (d digits) join() string { return d[year] + d[month] + d[day] }

// tokens are the tokens of dates. yyyy precedes yy, which it begins with.
var tokens = []struct {
	text  string
	field field
}{{"yyyy", year}, {"yy", year}, {"MM", month}, {"dd", day}}

// NewFormat returns the format of a base, the part of the tags before the date.
// The zone decides to which day a time belongs. It is required, and must not be
// time.Local, which differs between machines.
//
// A format is text with tokens in braces, 1 to 100 bytes:
//
//	{yyyy} or {yy}  year, of four digits or the last two
//	{MM} {dd}       month and day, of two digits
//	{seq:6}         the ID, with zeros up to 6 (1 to 19) digits, and never cut
//	{seq}           the same without zeros
//
// Tokens of dates may share braces, as in {yyyyMMdd}, and come in any order.
// dd needs MM, and MM a year. Without a date, the tag is the base, and numbers
// never begin again. {seq} is required. No token may come twice. Text must not
// have braces, nor characters that are invisible or change the direction:
// Unicode's categories Cc, Cf, Zl and Zp.
//
// Errors: [ErrFormat]; [ErrZone]; [messages.ErrTag], for the base or if the tag
// is longer than 128 bytes.
func NewFormat(base, format string, zone *time.Location) (*Format, error) {
	if err := messages.CheckTag(base); err != nil {
		return nil, fmt.Errorf("base of numbers: %w", err)
	}
	if zone == nil || zone == time.Local {
		return nil, fmt.Errorf("%w: it must be named, because the local one differs between machines", ErrZone)
	}
	f := &Format{base: base, zone: zone, text: format}
	if err := f.parse(); err != nil {
		return nil, fmt.Errorf("%w %.100q: %w", ErrFormat, format, err)
	}
	if err := messages.CheckTag(f.tag(f.dated)); err != nil {
		return nil, fmt.Errorf("base and date: %w", err)
	}
	return f, nil
}

// parse reads the parts of the format.
func (f *Format) parse() error {
	if f.text == "" || len(f.text) > MaxFormatLen {
		return fmt.Errorf("%d bytes, allowed is 1 to %d", len(f.text), MaxFormatLen)
	}
	for rest := f.text; rest != ""; {
		text, after, opened := strings.Cut(rest, "{")
		if err := checkLiteral(text); err != nil {
			return err
		}
		if text != "" {
			f.add(part{field: literal, text: text, width: len(text)})
		}
		if !opened {
			break
		}
		inside, next, closed := strings.Cut(after, "}")
		if !closed {
			return errors.New("{ without }")
		}
		if err := f.parseTokens(inside); err != nil {
			return err
		}
		rest = next
	}
	return f.check()
}

func (f *Format) add(p part) {
	f.parts = append(f.parts, p)
	if p.field != seq {
		f.fixed += p.width
	}
}

// parseTokens reads what is between braces.
func (f *Format) parseTokens(inside string) error {
	if inside == "seq" {
		f.add(part{field: seq, width: 1})
		return nil
	}
	if pad, isSeq := strings.CutPrefix(inside, "seq:"); isSeq {
		width, err := strconv.Atoi(pad)
		if err != nil || width < 1 || width > maxPad || pad != strconv.Itoa(width) {
			return fmt.Errorf("{%s}: allowed is {seq} or {seq:N}, N from 1 to %d", inside, maxPad)
		}
		f.add(part{field: seq, width: width})
		return nil
	}
	for rest := inside; ; {
		found := false
		for _, token := range tokens {
			if after, ok := strings.CutPrefix(rest, token.text); ok {
				f.add(part{field: token.field, width: len(token.text)})
				rest, found = after, true
				break
			}
		}
		switch {
		case !found:
			return fmt.Errorf("{%s}: allowed are yyyy or yy, MM, dd, or one {seq} or {seq:N}", inside)
		case rest == "":
			return nil
		}
	}
}

// checkLiteral returns an error for text that could be a mistaken token, or
// with which different numbers could look the same.
func checkLiteral(text string) error {
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return errors.New("it is not UTF-8")
		case r == '}':
			return errors.New("} without {")
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return fmt.Errorf("%q is not allowed, only visible characters and spaces", r)
		}
	}
	return nil
}

// check completes the format, unless numbers could repeat: the ID is missing, or
// a date begins again within a century.
func (f *Format) check() error {
	var count [seq + 1]int
	var names digits
	for _, p := range f.parts {
		count[p.field]++
		for _, token := range tokens {
			if p.field == token.field && p.width == len(token.text) {
				names[p.field] = token.text
			}
		}
	}
	switch {
	case count[seq] != 1:
		return fmt.Errorf("{seq} comes %d times, allowed is once", count[seq])
	case count[year] > 1 || count[month] > 1 || count[day] > 1:
		return errors.New("a part of the date comes twice")
	case count[day] > count[month]:
		return errors.New("dd needs MM")
	case count[month] > count[year]:
		return errors.New("MM needs yyyy or yy")
	}
	f.dated = names.join()
	return nil
}

// Dated returns the date at the end of tags as templates name it: yyyyMMdd,
// yyyyMM, yyyy, yyMMdd, yyMM or yy; or "" if numbers never begin again.
func (f *Format) Dated() string { return f.dated }

// Next returns the next number of a document of that time. Errors: those of the
// client, and of [Format.Tag].
func (f *Format) Next(ctx context.Context, client Issuer, at time.Time) (string, error) {
	tag, err := f.Tag(at)
	if err != nil {
		return "", err
	}
	id, err := client.Next(ctx, tag)
	if err != nil {
		return "", fmt.Errorf("number of %s: %w", f.base, err)
	}
	return f.Number(at, id)
}

// NextN returns the next n numbers of documents of that time, in ascending order
// of their IDs. n is at least 1 and at most the batch limit of the workers.
// Errors as for Next.
func (f *Format) NextN(ctx context.Context, client Issuer, at time.Time, n int64) ([]string, error) {
	tag, err := f.Tag(at)
	if err != nil {
		return nil, err
	}
	ranges, err := client.NextN(ctx, tag, n)
	if err != nil {
		return nil, fmt.Errorf("numbers of %s: %w", f.base, err)
	}
	var all []string
	for id := range messages.IDs(ranges) {
		text, err := f.Number(at, id)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// Tag returns the tag of documents of that time: the base, and if the format
// has a date, a dot and all its digits that numbers show, in the order year,
// month, day. It returns an error that wraps [ErrDate] for the zero time and
// years outside 1–9999 in the format's zone. A format without a date takes any
// time.
func (f *Format) Tag(at time.Time) (string, error) {
	d, err := f.digitsOf(at)
	if err != nil {
		return "", err
	}
	return f.tag(d.join()), nil
}

func (f *Format) tag(period string) string {
	if period == "" {
		return f.base
	}
	return f.base + "." + period
}

// Number returns the number of a document of that time, with an ID of its tag.
// Errors: that of [Format.Tag], and [ErrSeq] for an ID below 1.
func (f *Format) Number(at time.Time, id int64) (string, error) {
	d, err := f.digitsOf(at)
	if err != nil {
		return "", err
	}
	if id < 1 {
		return "", fmt.Errorf("%w: %d, allowed is 1 or more", ErrSeq, id)
	}
	var b strings.Builder
	for _, p := range f.parts {
		switch p.field {
		case literal:
			b.WriteString(p.text)
		case seq:
			fmt.Fprintf(&b, "%0*d", p.width, id)
		default:
			b.WriteString(d[p.field])
		}
	}
	return b.String(), nil
}

// digitsOf returns the digits that numbers of that time show.
func (f *Format) digitsOf(at time.Time) (d digits, err error) {
	if f.dated == "" {
		return d, nil
	}
	y, m, dd := at.In(f.zone).Date()
	if at.IsZero() || y < 1 || y > 9999 {
		return d, fmt.Errorf("%w: the year is %d, or no time is set; allowed is 1 to 9999", ErrDate, y)
	}
	values := [...]int{year: y, month: int(m), day: dd}
	for _, p := range f.parts {
		if p.field != literal && p.field != seq {
			text := fmt.Sprintf("%04d", values[p.field])
			d[p.field] = text[len(text)-p.width:]
		}
	}
	return d, nil
}

// ParseDate reads a document's date: a time as of RFC 3339, or a day of the
// format's zone, such as 2026-11-26, for which it returns the noon. The error
// wraps [ErrDate]. Midnight would be wrong: some zones skip it when daylight
// saving begins. A day that the zone skipped is an error.
func (f *Format) ParseDate(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %.40q, allowed is a day such as 2026-11-26, or a time of RFC 3339", ErrDate, text)
	}
	noon := time.Date(at.Year(), at.Month(), at.Day(), 12, 0, 0, 0, f.zone)
	if noon.Format(time.DateOnly) != text {
		return time.Time{}, fmt.Errorf("%w: there was no %s in %s", ErrDate, text, f.zone)
	}
	return noon, nil
}

// Parsed is a number that was read.
type Parsed struct {
	Base   string
	Period string // the date's digits in the order year, month, day; "" without a date
	Seq    int64  // the ID
}

// Parse reads a number. It accepts exactly what [Format.Number] returns; the
// error for any other text wraps [ErrNumber].
func (f *Format) Parse(number string) (Parsed, error) {
	wrong := func(why string) (Parsed, error) {
		return Parsed{}, fmt.Errorf("%w %q: %.200q %s", ErrNumber, f.text, number, why)
	}
	width := len(number) - f.fixed // of the ID
	var d digits
	var id int64
	for rest, i := number, 0; i < len(f.parts); i++ {
		p := f.parts[i]
		size := p.width
		if p.field == seq {
			size = width
		}
		if size < p.width || size > len(rest) {
			return wrong("is too short")
		}
		text := rest[:size]
		rest = rest[size:]
		switch {
		case p.field == literal && text != p.text:
			return wrong("has other text")
		case p.field == literal:
		case strings.Trim(text, "0123456789") != "":
			return wrong("has other characters than digits")
		case p.field == seq:
			var err error
			if id, err = strconv.ParseInt(text, 10, 64); err != nil || id < 1 || size > p.width && text[0] == '0' {
				return wrong("has no sequence number from 1 to 2^63-1, or too many zeros")
			}
		default:
			d[p.field] = text
		}
	}
	if !d.isDate() {
		return wrong("has no date of the calendar")
	}
	return Parsed{f.base, d.join(), id}, nil
}

// Tag returns the tag that issued the ID.
func (p Parsed) Tag() string { return (&Format{base: p.Base}).tag(p.Period) }

// isDate reports whether there is such a date, from the year 1 on. A year of two
// digits may be of any century: in 2000, 29 February existed.
func (d digits) isDate() bool {
	if len(d[year]) == 2 {
		d[year] = "20" + d[year]
	}
	text := d.join()
	at, err := time.Parse("20060102"[:len(text)], text)
	return text == "" || err == nil && at.Year() > 0
}
