package tags

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Tags travel as text, one line each: name, step, and the first ID that is not handed out.

// ErrFormat is wrapped by the errors of [Read].
var ErrFormat = errors.New("malformed list of tags")

// Write writes tags as text.
func Write(w io.Writer, list []store.Tag) error {
	buf := bufio.NewWriter(w)
	for _, tag := range list {
		fmt.Fprintf(buf, "%s %d %d\n", tag.Name, tag.Step, tag.Next)
	}
	return buf.Flush()
}

// Read reads what [Write] wrote. Blank lines and those that begin with # are skipped. All
// lines that are wrong are in the error, and then nothing should be done with the others.
func Read(r io.Reader) (list []store.Tag, err error) {
	var bad []error
	known := make(map[string]bool)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
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
	return list, errors.Join(bad...)
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
	for i, number := range []*int64{&tag.Step, &tag.Next} {
		if *number, err = strconv.ParseInt(fields[i+1], 10, 64); err != nil {
			return tag, fmt.Errorf("%.40q is no number below 2^63", fields[i+1])
		}
	}
	return tag, tag.Check()
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
	for _, tag := range list {
		raised, err := t.importTag(ctx, existing[tag.Name], tag)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag.Name, err)
		}
		report(raised)
	}
	return nil
}

func (t *Tags) importTag(ctx context.Context, existing, tag store.Tag) (Raised, error) {
	if existing.Name != "" {
		return t.raise(ctx, existing, tag.Next)
	}
	err := t.Create(ctx, tag)
	if errors.Is(err, store.ErrTagExists) { // created meanwhile
		return t.Raise(ctx, tag.Name, tag.Next)
	}
	return Raised{Tag: tag.Name, Now: tag.Next}, err
}
