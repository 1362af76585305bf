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

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Tags travel as text, one line each: name, step, and the first ID that is not handed out. The
// word removed in place of a step says that the tag was removed: it is a store.Tag with step 0.

// ErrFormat is wrapped by the errors of [Read].
var ErrFormat = errors.New("malformed list of tags")

const removedWord = "removed"

// Export lists all tags, each with the first ID that was not granted: with a ledger, that may be
// higher than what the store says. The removed tags that are remembered follow. Errors as for
// [Tags.List].
func (t *Tags) Export(ctx context.Context) ([]store.Tag, error) {
	list, err := t.List(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	if err := t.store.RaiseList(ctx, list); err != nil {
		return nil, err
	}
	removed, failed := t.store.Removed(ctx)
	slices.SortFunc(removed, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
	return append(list, removed...), errors.Join(err, failed)
}

// Write writes tags as text.
func Write(w io.Writer, list []store.Tag) error {
	buf := bufio.NewWriter(w)
	for _, tag := range list {
		step := strconv.FormatInt(tag.Step, 10)
		if tag.Step == 0 {
			step = removedWord
		}
		fmt.Fprintf(buf, "%s %s %d\n", tag.Name, step, tag.Next)
	}
	return buf.Flush()
}

// Read reads what [Write] wrote. Blank lines and those that begin with # are skipped. All
// lines that are wrong are in the error, and then nothing should be done with the others.
func Read(r io.Reader) (list []store.Tag, err error) {
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
		tag, err := parse(text)
		if err == nil && known[tag.Name] {
			err = errors.New("tag " + tag.Name + " stands there twice")
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err))
			continue
		}
		known[tag.Name] = true
		list = append(list, tag)
	}
	if err := lines.Err(); err != nil {
		bad = append(bad, fmt.Errorf("%w: %w", ErrFormat, err))
	}
	if len(list)+len(bad) == 0 {
		bad = append(bad, fmt.Errorf("%w: there are no tags in it; did the export fail?", ErrFormat))
	}
	return list, errors.Join(bad...)
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

// parse reads one line.
func parse(line string) (tag store.Tag, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return tag, fmt.Errorf("%.60q has %d fields, want name, step and the first ID that is not handed out", line, len(fields))
	}
	tag.Name = fields[0]
	if err := messages.CheckTag(tag.Name); err != nil {
		return tag, err
	}
	if tag.Next, err = parseNumber(fields[2]); err != nil {
		return tag, err
	}
	if fields[1] == removedWord {
		return tag, store.Tag{Name: tag.Name, Step: 1, Next: tag.Next}.Check()
	}
	if tag.Step, err = parseNumber(fields[1]); err != nil {
		return tag, err
	}
	return tag, tag.Check()
}

func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no number below 2^63", text)
	}
	return n, nil
}

// Import brings the tags of a list into the store: one that is missing is created, and one
// that exists is raised, never lowered; its step stays. It reports each, with Before 0 for
// one that was created, and stops at the first error.
func (t *Tags) Import(ctx context.Context, list []store.Tag, report func(Raised)) error {
	there, err := t.List(ctx)
	if err != nil {
		return err
	}
	existing := make(map[string]store.Tag, len(there))
	for _, tag := range there {
		existing[tag.Name] = tag
	}
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	for _, tag := range list {
		raised, err := t.importTag(ctx, existing[tag.Name], tag, rules.FromTemplate)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag.Name, err)
		}
		report(raised)
	}
	return nil
}

func (t *Tags) importTag(ctx context.Context, existing, tag store.Tag, fromTemplate func(string) bool) (Raised, error) {
	switch {
	case existing.Name != "":
		return t.raise(ctx, existing, tag.Next)
	case tag.Step == 0:
		return t.importRemoved(ctx, tag)
	}
	create := t.Create
	if fromTemplate(tag.Name) {
		create = t.store.CreateTag // it has no place in the directory
	}
	err := create(ctx, tag)
	if errors.Is(err, store.ErrTagExists) { // created meanwhile
		return t.Raise(ctx, tag.Name, tag.Next)
	}
	return Raised{Tag: tag.Name, Now: tag.Next}, err
}

// importRemoved makes the store remember a removed tag: by creating and removing it, if it does not.
func (t *Tags) importRemoved(ctx context.Context, tag store.Tag) (Raised, error) {
	raised := Raised{Tag: tag.Name, Now: tag.Next, Removed: true}
	err := t.store.RaiseRemoved(ctx, tag.Name, tag.Next)
	if !errors.Is(err, store.ErrNoTag) {
		return raised, err
	}
	if err := t.store.CreateTag(ctx, store.Tag{Name: tag.Name, Step: 1, Next: tag.Next}); err != nil {
		return raised, err
	}
	return raised, t.store.RemoveTag(ctx, tag.Name)
}
