package tags

import (
	"bufio"
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
// a step means that the tag was removed. A line that begins with a pattern is a
// template: pattern, step, order, how many tags it may make, how many a second,
// and the first ID of a new one.

// ErrFormat is wrapped by the errors of [Parse].
var ErrFormat = problem.New(problem.Invalid, "malformed list of tags")

const removedWord = "removed"

// Export lists all tags, each with the first ID that was not granted, and then
// the removed ones. Templates begin no lower than tags may be created here.
// Errors as for [Tags.List]; tags whose row is missing are a store.ErrCorrupt.
func (t *Tags) Export(ctx context.Context) (list List, err error) {
	if list.Templates, err = t.Templates(ctx); err != nil {
		return list, err
	}
	existing, err := t.store.Tags(ctx)
	slices.SortFunc(existing, byName)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return list, err
	}
	removed, failed := t.store.Removed(ctx)
	removed, lost := t.withoutLost(ctx, removed)
	slices.SortFunc(removed, byName)
	list.Tags = append(existing, removed...)
	return list, errors.Join(err, failed, lost)
}

// withoutLost returns the tags that were removed, and an error about those that
// were not: a table has lost their rows.
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

// Text writes the list as [Parse] reads it.
func (l List) Text(w io.Writer) error {
	buf := bufio.NewWriter(w) // Flush returns what failed
	for _, t := range l.Templates {
		_, _ = fmt.Fprintf(buf, "%s %d %s %d %d %d\n", t.Pattern, t.Step, t.Order, t.MaxTags, t.NewPerSecond, t.FirstID())
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

// Parse reads what [List.Text] wrote. Blank lines and those that begin with #
// are skipped. All lines that are wrong are in the error, and then nothing
// should be done with the others.
func Parse(text string) (list List, err error) {
	var bad []error
	names := make(map[string]bool)
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := list.parseLine(line, names); err != nil {
			bad = append(bad, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err))
		}
	}
	if len(names)+len(bad) == 0 {
		bad = append(bad, fmt.Errorf("%w: there are no tags in it; did the export fail?", ErrFormat))
	}
	return list, errors.Join(bad...)
}

// parseLine adds the tag or the template of a line to the list, unless an earlier
// line had the same name.
func (l *List) parseLine(line string, names map[string]bool) error {
	line, whole := strings.CutSuffix(line, "\n")
	fields := strings.Fields(line)
	switch {
	case !whole:
		return fmt.Errorf("%.60q does not end in a newline: the list is cut off", line)
	case len(fields) == 0, strings.HasPrefix(fields[0], "#"):
		return nil
	case names[fields[0]]:
		return errors.New("tag " + fields[0] + " stands there twice")
	}
	names[fields[0]] = true
	if templates.IsPattern(fields[0]) {
		return l.parseTemplate(line, fields)
	}
	return l.parseTag(line, fields)
}

func (l *List) parseTag(line string, fields []string) error {
	tag := store.Tag{Name: fields[0], Order: store.Trend}
	if err := messages.CheckTag(tag.Name); err != nil {
		return err
	}
	switch len(fields) {
	case 3:
	case 4:
		tag.Order = store.Order(fields[3])
	default:
		return fmt.Errorf("%.60q has %d fields, want name, step and the first ID that is not handed out, and %s if the tag is",
			line, len(fields), store.Strict)
	}
	removed := fields[1] == removedWord
	if removed {
		fields[1] = "1" // any step that is in bounds
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

func (l *List) parseTemplate(line string, fields []string) error {
	if len(fields) != 6 {
		return fmt.Errorf("%.60q has %d fields, but a * or > makes it the line of a template: "+
			"want pattern, step, order, how many tags, how many new ones a second and the first ID of a new one", line, len(fields))
	}
	t := templates.Template{Pattern: fields[0], Order: store.Order(fields[2])}
	err := parseNumbers([]string{fields[1], fields[3], fields[4], fields[5]}, &t.Step, &t.MaxTags, &t.NewPerSecond, &t.First)
	if err != nil {
		return err
	}
	l.Templates = append(l.Templates, t)
	return t.Check()
}

func parseNumbers(texts []string, to ...*int64) (err error) {
	for i, text := range texts {
		if *to[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("%.40q is no number below 2^63", text)
		}
	}
	return nil
}

// Import brings the tags and then the templates of a list into the store. A tag
// that is missing is created, no lower than the store allows; one that exists
// is raised, never lowered, and keeps its step. A template that exists stays,
// but for its first ID, which is raised. Import reports each tag, and each
// template that it made. It may break off anywhere, and be run again.
//
// Before anything is changed it looks whether the list goes with what is here.
// Errors: store.ErrOrder, as a name keeps its order, store.ErrSetup, and those
// of templates.Create.
func (t *Tags) Import(ctx context.Context, list List, report func(Change)) error {
	here, err := t.here(ctx)
	if err != nil {
		return err
	}
	for _, tag := range list.Tags {
		if err := checkOrder(here[tag.Name], tag); err != nil {
			return err
		}
	}
	present, err := templates.Read(ctx, t.JetStream, t.Prefix)
	if err != nil {
		return err
	}
	_, made, err := present.Join(list.Templates)
	if err == nil && len(made) > 0 {
		err = t.store.CheckFirst(ctx)
	}
	if err != nil {
		return err
	}
	for _, tag := range list.Tags {
		change, err := t.importTag(ctx, here[tag.Name], tag)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag.Name, err)
		}
		change.Order = tag.Order
		report(change)
	}
	made, err = templates.Import(ctx, t.JetStream, t.Prefix, list.Templates)
	if err != nil {
		return err
	}
	for _, template := range made {
		report(Change{Tag: template.Pattern, Order: template.Order, Template: true})
	}
	return nil
}

// here returns the tags by name, and those that were removed, with step 0.
func (t *Tags) here(ctx context.Context) (map[string]store.Tag, error) {
	existing, err := t.store.Tags(ctx)
	if err != nil {
		return nil, err
	}
	removed, err := t.store.Removed(ctx)
	here := make(map[string]store.Tag)
	for _, tag := range existing {
		tag.Step = max(1, tag.Step) // a row may have any
		here[tag.Name] = tag
	}
	for _, tag := range removed {
		here[tag.Name] = tag
	}
	return here, err
}

// checkOrder returns a store.ErrOrder if a tag has another order here than in a
// list.
func checkOrder(here, listed store.Tag) error {
	if here.Name == "" || here.Order == listed.Order {
		return nil
	}
	return &store.OrderError{Tag: listed.Name, Was: here.Order, Want: listed.Order}
}

// importTag imports a tag that is, was or was never here.
func (t *Tags) importTag(ctx context.Context, here, tag store.Tag) (Change, error) {
	if here.Step > 0 {
		return t.raise(ctx, here, tag.Next)
	}
	tag.Next = max(tag.Next, here.Next, t.store.Lowest())
	if tag.Step == 0 {
		return Change{Tag: tag.Name, Next: tag.Next, Removed: true}, t.importRemoved(ctx, tag)
	}
	err := t.Create(ctx, tag)
	if !errors.Is(err, store.ErrTagExists) {
		return Change{Tag: tag.Name, Next: tag.Next}, err
	}
	here, err = t.Find(ctx, tag.Name) // it was created since Import listed the tags
	if err == nil {
		err = checkOrder(here, tag)
	}
	if err != nil {
		return Change{}, err
	}
	return t.raise(ctx, here, tag.Next)
}

// importRemoved makes the store remember a removed tag: by creating and
// removing it, if it does not.
func (t *Tags) importRemoved(ctx context.Context, tag store.Tag) error {
	err := t.store.RaiseRemoved(ctx, tag.Name, tag.Next)
	if !errors.Is(err, store.ErrNoTag) {
		return err
	}
	tag.Step = 1
	if err := t.store.CreateTag(ctx, tag); err != nil {
		return err
	}
	return t.store.RemoveTag(ctx, tag.Name)
}
