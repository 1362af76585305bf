// Package tagging is the commands idworker tag ls, create, set and rm, but for
// how they connect.
package tagging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// List is tag ls.
type List struct {
	Pattern string `arg:"" optional:"" help:"Only tags that match, such as 'chat.*' (default: all but those that match a template)."`
}

// Check says what is wrong with the arguments.
func (l *List) Check() error {
	if l.Pattern != "" && messages.CheckTag(l.Pattern) != nil {
		return templates.CheckPattern(l.Pattern)
	}
	return nil
}

// Do prints one tag a line, sorted by name, and marks those that cannot be
// served; and the templates. Tags that match a template are counted with it,
// and listed only if a pattern asks for them. The error names entries that
// cannot be read.
func (l *List) Do(ctx context.Context, t *tags.Tags, out report.Printer) error {
	listing, err := t.ListAll(ctx, l.Pattern)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	if l.Pattern != "" && len(listing.Tags)+len(listing.Templates) == 0 {
		return errors.Join(fmt.Errorf("%w %s", tags.ErrNoMatch, l.Pattern), err)
	}
	return errors.Join(out.Print(listsOf(listing)), err)
}

// Text is part of report.Report.
func (l lists) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TAG\tSTEP\tNEXT\tORDER")
	for _, tag := range l.Tags {
		note := ""
		if tag.Unusable != "" {
			note = "\tunusable: " + tag.Unusable
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s%s\n", printable(tag.Tag), tag.Step, tag.Next, tag.Order, note)
	}
	return errors.Join(w.Flush(), l.printTemplates(out))
}

// printTemplates prints one template a line, if there are any.
func (l lists) printTemplates(out io.Writer) error {
	if len(l.Templates) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nTEMPLATE\tSTEP\tORDER\tTAGS\tMAX TAGS\tNEW PER SECOND")
	for _, t := range l.Templates {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", t.Pattern, t.Step, t.Order, *t.Tags, limit(t.MaxTags), limit(t.NewPerSecond))
	}
	return w.Flush()
}

// limit is a limit of a template in a column.
func limit(n int64) string {
	if n == 0 {
		return "any"
	}
	return strconv.FormatInt(n, 10)
}

// grouped is a number of 0 or more with commas between thousands.
func grouped(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// printable quotes a name that is not a valid tag, because it may contain
// anything.
func printable(name string) string {
	if messages.CheckTag(name) != nil {
		return strconv.Quote(name)
	}
	return name
}
