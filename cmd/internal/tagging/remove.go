package tagging

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Remove is tag rm.
type Remove struct {
	Tag string `arg:"" help:"Name of the tag, or pattern of the template. What came of a template stays in the store, and goes on counting if the template is made again."`
	Yes bool   `help:"Do not ask."`

	Ended `embed:""`
}

// Check says what is wrong with the name.
func (r *Remove) Check() error {
	if tagrules.IsPattern(r.Tag) {
		return tagrules.CheckPattern(r.Tag)
	}
	return messages.CheckTag(r.Tag)
}

// Do removes a tag or a template, after its name was typed once more.
func (r *Remove) Do(ctx context.Context, t *tags.Tags, in io.Reader, out report.Printer) error {
	if err := t.Orders.DeclareEnded(ctx, r.Ended.Ended); err != nil {
		return err
	}
	template, remove := tagrules.IsPattern(r.Tag), t.Remove
	if template {
		remove = t.RemoveTemplate
	}
	effect, err := r.effect(ctx, t)
	if errors.Is(err, store.ErrNoTag) || errors.Is(err, tagrules.ErrNoTemplate) {
		return remove(ctx, r.Tag) // completes a removal that broke off
	}
	if err != nil {
		return err
	}
	if !r.Yes {
		if out.JSON {
			return explain.Usage(errors.New("--json goes with --yes: nobody can be asked"))
		}
		if err := r.confirm(effect, in, out); err != nil {
			return err
		}
	}
	if err := remove(ctx, r.Tag); err != nil {
		return err
	}
	return out.Print(removed{r.Tag, template})
}

// effect says what follows from the removal. The error is a store.ErrNoTag or tagrules.ErrNoTemplate
// if there is nothing to remove.
func (r *Remove) effect(ctx context.Context, t *tags.Tags) (string, error) {
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return "", err
	}
	if tagrules.IsPattern(r.Tag) {
		_, err := rules.Template(r.Tag)
		return fmt.Sprintf("Requests for all tags that came of %s will fail.", r.Tag), err
	}
	_, err = t.Find(ctx, r.Tag)
	if template := rules.Lookup(r.Tag).Template; template != nil {
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
		return explain.Usage(errors.New("that is not its name; nothing was removed; where nobody can type it, give --yes"))
	}
	return explain.Usage(errors.New("that is not its name; nothing was removed"))
}
