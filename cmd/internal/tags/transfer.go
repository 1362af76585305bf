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

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Tags travel as text, one line each: name, step, and the first ID that is not handed out. The
// word removed in place of a step says that the tag was removed: it is a store.Tag with step 0. A
// tag with an order of its own has that as a fourth word. One that was created by name and matches a template has
// the word named at the end. A line that begins with a pattern is a
// template: pattern, step, order, how many tags it may make, how many a second, the first ID of a new
// one, and, if it was removed, that word.

// ErrFormat is wrapped by the errors of [Read].
var ErrFormat = errors.New("malformed list of tags")

const (
	removedWord = "removed"
	namedWord   = "named"
)

// Transfer is what is exported and imported.
type Transfer struct {
	Templates []tagrules.Template // those that were removed among them
	Tags      []store.Tag
	Orders    map[string]tagrules.Order // the own ones of tags, by name
	Named     map[string]bool           // those of the tags that match a template, and were created by name
}

// Export lists all tags, each with the first ID that was not granted, and then the removed
// ones. Templates begin no lower than tags may be created here. Errors as for [Tags.List].
func (t *Tags) Export(ctx context.Context) (all Transfer, err error) {
	list, err := t.List(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return all, err
	}
	rules, failed := t.Orders.Rules(ctx)
	if failed != nil {
		return all, failed
	}
	byName, failed := t.directory.Steps(ctx)
	if failed != nil {
		return all, failed
	}
	all.Templates = rules.AllTemplates()
	for i := range all.Templates {
		all.Templates[i].First = max(all.Templates[i].FirstID(), t.store.Lowest())
	}
	all.Orders, all.Named = make(map[string]tagrules.Order), make(map[string]bool)
	for _, tag := range list {
		if order, ok := rules.Own(tag.Name); ok {
			all.Orders[tag.Name] = order
		}
		if _, named := byName[tag.Name]; named && rules.FromTemplate(tag.Name) {
			all.Named[tag.Name] = true
		}
	}
	removed, failed := t.store.Removed(ctx)
	slices.SortFunc(removed, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
	all.Tags = append(list, removed...)
	return all, errors.Join(err, failed)
}

// Write writes templates and tags as text.
func Write(w io.Writer, all Transfer) error {
	buf := bufio.NewWriter(w) // Flush returns what failed
	for _, t := range all.Templates {
		removed := ""
		if t.Removed {
			removed = " " + removedWord
		}
		_, _ = fmt.Fprintf(buf, "%s %d %s %d %d %d%s\n", t.Pattern, t.Step, t.Order, t.MaxTags, t.NewPerSecond, t.FirstID(), removed)
	}
	for _, tag := range all.Tags {
		step, more := strconv.FormatInt(tag.Step, 10), ""
		if tag.Step == 0 {
			step = removedWord
		}
		if own, ok := all.Orders[tag.Name]; ok {
			more = " " + string(own)
		}
		if all.Named[tag.Name] {
			more += " " + namedWord
		}
		_, _ = fmt.Fprintf(buf, "%s %s %d%s\n", tag.Name, step, tag.Next, more)
	}
	return buf.Flush()
}

// Read reads what [Write] wrote. Blank lines and those that begin with # are skipped. All
// lines that are wrong are in the error, and then nothing should be done with the others.
func Read(r io.Reader) (all Transfer, err error) {
	var bad []error
	all.Orders, all.Named = make(map[string]tagrules.Order), make(map[string]bool)
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
	if tagrules.IsPattern(fields[0]) {
		template, err := parseTemplate(line, fields)
		all.Templates = append(all.Templates, template)
		return err
	}
	if last := len(fields) - 1; fields[last] == namedWord && last > 2 && fields[1] != removedWord {
		all.Named[fields[0]] = true
		fields = fields[:last]
	}
	tag, order, err := parse(line, fields)
	if order != "" {
		all.Orders[tag.Name] = order
	}
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

// parse reads the line of a tag. The order is "" if it has none of its own.
func parse(line string, fields []string) (tag store.Tag, order tagrules.Order, err error) {
	tag.Name = fields[0]
	if err := messages.CheckTag(tag.Name); err != nil {
		return tag, "", err
	}
	if len(fields) == 4 && fields[1] != removedWord {
		order = tagrules.Order(fields[3])
		if err := order.Check(); err != nil {
			return tag, "", err
		}
	} else if len(fields) != 3 {
		return tag, "", fmt.Errorf("%.60q has %d fields, want name, step and the first ID that is not handed out, and the order if the tag has one of its own", line, len(fields))
	}
	if tag.Next, err = parseNumber(fields[2]); err != nil {
		return tag, "", err
	}
	if fields[1] == removedWord {
		return tag, "", store.Tag{Name: tag.Name, Step: 1, Next: tag.Next}.Check()
	}
	if tag.Step, err = parseNumber(fields[1]); err != nil {
		return tag, "", err
	}
	return tag, order, tag.Check()
}

// parseTemplate reads the line of a template.
func parseTemplate(line string, fields []string) (t tagrules.Template, err error) {
	if n := len(fields); n != 6 && (n != 7 || fields[6] != removedWord) {
		return t, fmt.Errorf("%.60q has %d fields, but a * or > makes it the line of a template: want pattern, step, order, how many tags, how many new ones a second and the first ID of a new one, and %s if it was", line, n, removedWord)
	}
	t = tagrules.Template{Pattern: fields[0], Order: tagrules.Order(fields[2]), Removed: len(fields) == 7}
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
