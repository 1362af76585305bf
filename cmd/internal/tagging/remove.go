package tagging

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Remove is tag rm.
type Remove struct {
	Tag string `arg:"" help:"Name of the tag, or pattern of a template; tags that came of one stay."`
	Yes bool   `help:"Do not ask."`
}

// Check says what is wrong with the name.
func (r *Remove) Check() error {
	if templates.IsPattern(r.Tag) {
		return templates.CheckPattern(r.Tag)
	}
	return messages.CheckTag(r.Tag)
}

// Do removes a tag or a template, after its name was typed once more.
func (r *Remove) Do(ctx context.Context, t *tags.Tags, in io.Reader, out report.Printer) error {
	effect, err := r.effect(ctx, t)
	if err != nil {
		return err
	}
	if effect != "" && !r.Yes {
		if out.JSON {
			return problem.Usage(errors.New("--json goes with --yes: nobody can be asked"))
		}
		if err := r.confirm(effect, in, out); err != nil {
			return err
		}
	}
	if templates.IsPattern(r.Tag) {
		if err := t.RemoveTemplate(ctx, r.Tag); err != nil {
			return err
		}
		return out.Print(removed{Name: r.Tag, Template: true})
	}
	err = t.Remove(ctx, r.Tag)
	if err != nil && !errors.Is(err, tags.ErrNotTold) {
		return err
	}
	return errors.Join(out.Print(removed{Name: r.Tag, Told: err == nil}), err)
}

// effect is what follows from the removal, "" if there is nothing to remove:
// workers may still have to be told.
func (r *Remove) effect(ctx context.Context, t *tags.Tags) (string, error) {
	all, err := t.Templates(ctx)
	if err != nil {
		return "", err
	}
	if templates.IsPattern(r.Tag) {
		_, err := all.Named(r.Tag)
		return fmt.Sprintf("No more tags will come of %s; those that exist stay.", r.Tag), err
	}
	err = t.Exists(ctx, r.Tag)
	if errors.Is(err, store.ErrNoTag) {
		return "", nil
	}
	if template := all.Find(r.Tag); template != nil {
		return fmt.Sprintf("%s matches the template %s: the next request makes it again, above what it had.", r.Tag, template.Pattern), err
	}
	return fmt.Sprintf("Requests for %s will fail.", r.Tag), err
}

// confirm has somebody type the name.
func (r *Remove) confirm(effect string, in io.Reader, out io.Writer) error {
	fmt.Fprintf(out, "%s Type its name to remove it: ", effect)
	var typed string
	if _, _ = fmt.Fscanln(in, &typed); typed == r.Tag {
		return nil
	}
	if !progress.IsTerminal(in) {
		fmt.Fprintln(out)
		return problem.Usage(errors.New("that is not its name; nothing was removed; where nobody can type it, give --yes"))
	}
	return problem.Usage(errors.New("that is not its name; nothing was removed"))
}
