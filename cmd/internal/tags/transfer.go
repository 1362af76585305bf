package tags

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
)

// The text form of a list has a line per tag: name, step, next ID, and the
// order unless it is trend. The word removed in place of the step marks a
// removed tag. A line that begins with a pattern is a template: pattern, step,
// order, most tags, new tags per second, and first ID; with dates also their
// format and the seconds ahead. The line "floor N TIME" says that any tag that
// is not listed may have issued the IDs below N before that time.

// ErrFormat is wrapped by the errors of [Parse].
var ErrFormat = problem.New(problem.Invalid, "malformed list of tags")

const (
	removedWord = "removed"
	floorWord   = "floor"
)

var errRaised = errors.New("all tags were raised during the export; repeat it")

// Export lists all tags, each with the first ID that was not granted, and then
// the removed tags; the templates with their own first IDs; and the lowest
// first ID of any other tag, because it may have been lost. Errors as for
// [Tags.List]; a tag whose row is missing is a store.ErrCorrupt. While tags are
// being raised there is no list.
func (t *Tags) Export(ctx context.Context) (list Listing, err error) {
	before := t.Lowest()
	if list.Templates, err = templates.Read(ctx, t.JetStream, t.Prefix); err != nil {
		return list, err
	}
	existing, removed, _, err := t.store.AllTags(ctx)
	slices.SortFunc(existing, byName)
	for i, tag := range existing { // a row may have any numbers
		existing[i].Step, existing[i].Next = max(1, tag.Step), max(1, tag.Next)
	}
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return list, err
	}
	removed, lost := t.withoutLost(ctx, removed)
	slices.SortFunc(removed, byName)
	floor, decided, stopped := t.store.Floor(ctx)
	switch {
	case stopped != nil:
		return Listing{}, stopped
	case floor != before:
		return Listing{}, errRaised
	}
	if floor > 1 {
		list.Floor, list.Decided = floor, decided
		if decided.IsZero() { // metadata that was edited by hand may lack it; it was before now
			list.Decided = time.Now()
		}
	}
	list.Tags = append(existing, removed...)
	return list, errors.Join(err, lost)
}

// withoutLost separates the removed tags from those whose rows the table has
// lost, which it returns as an error.
func (t *Tags) withoutLost(ctx context.Context, list []store.Tag) (removed []store.Tag, lost error) {
	if t.store.Database == nil {
		return list, nil
	}
	for _, tag := range list {
		if _, err := t.store.Lookup(ctx, tag.Name); err != nil && !errors.Is(err, store.ErrNoTag) {
			lost = errors.Join(lost, err)
			continue
		}
		removed = append(removed, tag)
	}
	return removed, lost
}

// Text writes the list in the form that [Parse] reads.
func (l Listing) Text(w io.Writer) error {
	buf := bufio.NewWriter(w) // Flush returns the first error
	if l.Floor > 0 {
		_, _ = fmt.Fprintln(buf, floorWord, l.Floor, l.Decided.UTC().Format(time.RFC3339Nano))
	}
	for _, t := range l.Templates {
		dates := ""
		if t.Dated != "" {
			dates = fmt.Sprintf(" %s %d", t.Dated, t.Ahead)
		}
		_, _ = fmt.Fprintf(buf, "%s %d %s %d %d %d%s\n", t.Pattern, t.Step, t.Order, t.MaxTags, t.NewPerSecond, t.FirstID(), dates)
	}
	for _, tag := range l.Tags {
		step, order := strconv.FormatInt(tag.Step, 10), ""
		if tag.Step == 0 {
			step = removedWord
		}
		if tag.Order == store.Strict {
			order = " " + string(store.Strict)
		}
		_, _ = fmt.Fprintf(buf, "%s %s %d%s\n", tag.Name, step, tag.Next, order)
	}
	return buf.Flush()
}

// maxBad bounds the malformed lines that [Parse] reports.
const maxBad = 100

// Parse reads the output of [Listing.Text], and sorts it. It skips blank lines, and
// lines that begin with #. The error is that of reading, or has the malformed
// lines; do not use the list then.
func Parse(from io.Reader) (list Listing, err error) {
	var bad []error
	if file, ok := from.(io.ReadSeeker); ok { // as a list grows, it needs twice the memory
		n, err := countLines(file)
		if err != nil {
			return list, err
		}
		list.Tags = make([]store.Tag, 0, n)
	}
	lines := bufio.NewReader(from)
	for n := 1; len(bad) < maxBad; n++ {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return list, err
		}
		if line == "" {
			break
		}
		if err := list.parseLine(line); err != nil {
			err = cmp.Or(secretfile.CheckMark([]byte(line)), err)
			bad = append(bad, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err))
		}
	}
	slices.SortStableFunc(list.Tags, byName)
	for i, tag := range list.Tags[min(1, len(list.Tags)):] {
		if tag.Name == list.Tags[i].Name {
			bad = append(bad, fmt.Errorf("%w: tag %s is listed twice", ErrFormat, tag.Name))
		}
	}
	if len(list.Tags)+len(list.Templates)+len(bad) == 0 && list.Floor == 0 {
		bad = append(bad, fmt.Errorf("%w: it has no tags; did the export fail?", ErrFormat))
	}
	return list, errors.Join(bad...)
}

// countLines counts the lines of a file, and returns to its beginning.
func countLines(file io.ReadSeeker) (n int, err error) {
	buf := make([]byte, 64<<10)
	for {
		read, err := file.Read(buf)
		n += bytes.Count(buf[:read], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			_, err = file.Seek(0, io.SeekStart)
			return n, err
		}
		if err != nil {
			return n, err
		}
	}
}

// parseLine adds the tag, the template or the floor of a line to the list.
func (l *Listing) parseLine(line string) error {
	line, whole := strings.CutSuffix(line, "\n")
	fields := strings.Fields(line)
	switch {
	case !whole:
		return fmt.Errorf("%.60q has no newline: the list is truncated", line)
	case len(fields) == 0, strings.HasPrefix(fields[0], "#"):
		return nil
	case l.parseFloor(fields):
		return nil
	}
	if templates.IsPattern(fields[0]) {
		return l.parseTemplate(line, fields)
	}
	return l.parseTag(line, fields)
}

// parseFloor reports whether the fields are the floor. The next ID of a tag of
// that name is no time. The highest of several floors counts: a file may hold
// several lists.
func (l *Listing) parseFloor(fields []string) bool {
	if len(fields) != 3 || fields[0] != floorWord {
		return false
	}
	floor, bad := strconv.ParseInt(fields[1], 10, 64)
	decided, noTime := time.Parse(time.RFC3339Nano, fields[2])
	if errors.Join(bad, noTime) != nil || floor < 1 {
		return false
	}
	l.Floor = max(l.Floor, floor)
	if decided.After(l.Decided) {
		l.Decided = decided
	}
	return true
}

func (l *Listing) parseTag(line string, fields []string) error {
	tag := store.Tag{Name: strings.Clone(fields[0]), Order: store.Trend}
	if err := messages.CheckTag(tag.Name); err != nil {
		return err
	}
	switch len(fields) {
	case 3:
	case 4:
		if tag.Order = store.Order(strings.Clone(fields[3])); tag.Order == store.Strict {
			tag.Order = store.Strict // one text for all tags
		}
	default:
		return fmt.Errorf("%.60q has %d fields, expected name, step, next ID and optionally %s",
			line, len(fields), store.Strict)
	}
	removed := fields[1] == removedWord
	if removed {
		fields[1] = "1" // any valid step
	}
	if err := parseNumbers(fields[1:3], &tag.Step, &tag.Next); err != nil {
		return err
	}
	err := tag.Check()
	if removed {
		tag.Step = 0
	}
	l.Tags = append(l.Tags, tag)
	return err
}

func (l *Listing) parseTemplate(line string, fields []string) error {
	if len(fields) != 6 && len(fields) != 8 {
		return fmt.Errorf("%.60q has %d fields, expected of a template: "+
			"pattern, step, order, most tags, new tags a second, first ID and optionally date format and seconds ahead", line, len(fields))
	}
	t := templates.Template{Pattern: fields[0], Order: store.Order(fields[2])}
	err := parseNumbers([]string{fields[1], fields[3], fields[4], fields[5]}, &t.Step, &t.MaxTags, &t.NewPerSecond, &t.First)
	if err == nil && len(fields) == 8 {
		t.Dated = fields[6]
		err = parseNumbers(fields[7:], &t.Ahead)
	}
	if err != nil {
		return err
	}
	if _, err := l.Templates.Named(t.Pattern); err == nil {
		return errors.New("template " + t.Pattern + " is listed twice")
	}
	l.Templates = append(l.Templates, t)
	return t.Check()
}

func parseNumbers(texts []string, to ...*int64) (err error) {
	for i, text := range texts {
		if *to[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("%.40q is not a number below 2^63", text)
		}
	}
	return nil
}
