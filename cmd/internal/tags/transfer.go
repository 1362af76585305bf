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

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Tags travel as text, one line each: name, step, the first ID that is not
// handed out, and the order, unless that is trend. The word removed in place of
// a step means that the tag was removed: it is a store.Tag with step 0. A line
// that begins with a pattern is a template: pattern, step, order, how many tags
// it may make, how many a second, and the first ID of a new one.

// ErrFormat is wrapped by the errors of [Read].
var ErrFormat = problem.New(problem.Invalid, "malformed list of tags")

const removedWord = "removed"

// Transfer is what is exported and imported.
type Transfer struct {
	Templates templates.List
	Tags      []store.Tag
}

// Export lists all tags, each with the first ID that was not granted, and then
// the removed ones. Templates begin no lower than tags may be created here.
// Errors as for [Tags.List]; tags whose row is missing are a store.ErrCorrupt.
func (t *Tags) Export(ctx context.Context) (all Transfer, err error) {
	if all.Templates, err = t.Templates(ctx); err != nil {
		return all, err
	}
	list, err := t.List(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return all, err
	}
	removed, failed := t.store.Removed(ctx)
	removed, lost := t.withoutLost(ctx, removed)
	slices.SortFunc(removed, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
	all.Tags = append(list, removed...)
	return all, errors.Join(err, failed, lost)
}

// withoutLost returns the tags that were removed, and an error about those that were not: a
// table has lost their rows.
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

// Write writes templates and tags as text.
func Write(w io.Writer, all Transfer) error {
	buf := bufio.NewWriter(w) // Flush returns what failed
	for _, t := range all.Templates {
		_, _ = fmt.Fprintf(buf, "%s %d %s %d %d %d\n", t.Pattern, t.Step, t.Order, t.MaxTags, t.NewPerSecond, t.FirstID())
	}
	for _, tag := range all.Tags {
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

// Read reads what [Write] wrote. Blank lines and those that begin with # are
// skipped. All lines that are wrong are in the error, and then nothing should
// be done with the others.
func Read(r io.Reader) (all Transfer, err error) {
	var bad []error
	known := make(map[string]bool)
	lines := bufio.NewScanner(r)
	lines.Split(wholeLines)
	for n := 1; lines.Scan(); n++ {
		text, whole := strings.CutSuffix(lines.Text(), "\n")
		if !whole {
			bad = append(bad, fmt.Errorf("%w: line %d: %.60q does not end in a newline: the list is cut off", ErrFormat, n, text))
			continue
		}
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if err := all.add(text, known); err != nil {
			bad = append(bad, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err))
		}
	}
	if err := lines.Err(); err != nil {
		bad = append(bad, fmt.Errorf("%w: %w", ErrFormat, err))
	}
	if len(all.Tags)+len(all.Templates)+len(bad) == 0 {
		bad = append(bad, fmt.Errorf("%w: there are no tags in it; did the export fail?", ErrFormat))
	}
	return all, errors.Join(bad...)
}

// add adds what a line says, of which nothing was known yet.
func (all *Transfer) add(line string, known map[string]bool) error {
	fields := strings.Fields(line)
	if known[fields[0]] {
		return errors.New("tag " + fields[0] + " stands there twice")
	}
	known[fields[0]] = true
	if templates.IsPattern(fields[0]) {
		template, err := parseTemplate(line, fields)
		all.Templates = append(all.Templates, template)
		return err
	}
	tag, err := parse(line, fields)
	all.Tags = append(all.Tags, tag)
	return err
}

// wholeLines splits text into lines, each with its newline, if it has one.
func wholeLines(data []byte, atEOF bool) (advance int, line []byte, err error) {
	end := bytes.IndexByte(data, '\n') + 1
	if end == 0 && atEOF {
		end = len(data)
	}
	if end == 0 {
		return 0, nil, nil // more is to come, or nothing
	}
	return end, data[:end], nil
}

// parse reads the line of a tag.
func parse(line string, fields []string) (tag store.Tag, err error) {
	tag.Name, tag.Order = fields[0], store.Trend
	if err := messages.CheckTag(tag.Name); err != nil {
		return tag, err
	}
	switch len(fields) {
	case 3:
	case 4:
		tag.Order = store.Order(fields[3])
	default:
		return tag, fmt.Errorf("%.60q has %d fields, want name, step and the first ID that is not handed out, and %s if the tag is", line, len(fields), store.Strict)
	}
	if tag.Next, err = parseNumber(fields[2]); err != nil {
		return tag, err
	}
	check := tag // a removed tag has no step
	check.Step = 1
	if fields[1] != removedWord {
		if tag.Step, err = parseNumber(fields[1]); err != nil {
			return tag, err
		}
		check.Step = tag.Step
	}
	return tag, check.Check()
}

// parseTemplate reads the line of a template.
func parseTemplate(line string, fields []string) (t templates.Template, err error) {
	if n := len(fields); n != 6 {
		return t, fmt.Errorf("%.60q has %d fields, but a * or > makes it the line of a template: want pattern, step, order, how many tags, how many new ones a second and the first ID of a new one", line, n)
	}
	t = templates.Template{Pattern: fields[0], Order: store.Order(fields[2])}
	for _, number := range []struct {
		to   *int64
		text string
	}{{&t.Step, fields[1]}, {&t.MaxTags, fields[3]}, {&t.NewPerSecond, fields[4]}, {&t.First, fields[5]}} {
		if *number.to, err = parseNumber(number.text); err != nil {
			return t, err
		}
	}
	return t, t.Check()
}

func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no number below 2^63", text)
	}
	return n, nil
}
