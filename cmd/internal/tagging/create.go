package tagging

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/store"
)

// Create is tag create.
type Create struct {
	Tag     string `arg:"" help:"Name: A-Z a-z 0-9 _ - and dots between tokens, at most 128 bytes. With --template a pattern: * for any one token, > in the end for the rest, such as 'chat.*'."`
	Step    *int64 `help:"IDs per segment: about what is used in ten minutes at peak. Of a template's tags, what is left when a worker forgets one is a gap. The default is 1000." placeholder:"N"`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`
	First   int64  `help:"The first ID; with --template, that of each new tag." default:"1"`

	Order store.Order `help:"trend: the IDs of each worker go up. strict: every ID is higher than every ID returned to any caller before it was asked for; workers keep none in memory. A name keeps its order for ever (default: that of the template that matches, else trend)." placeholder:"ORDER"`

	Template     bool   `help:"Every tag that matches the pattern comes into being when it is first asked for, with --first as its first ID."`
	MaxTags      *int64 `help:"With --template: how many tags it may make, those that were removed among them; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"With --template: how many tags each loader makes a second; 0 for any number. The default is 1000." placeholder:"N"`

	IfMissing bool `help:"It is no error if there is one already with the settings that are given. What is not given may be different."`
}

// defaultStep is the step of a tag or a template that is given none.
const defaultStep = 1000

// defaultNewPerSecond is what a template is given, so that no caller fills a
// store with made-up names as fast as it can write.
const defaultNewPerSecond = 1000

// Check says which arguments do not go together, and what is wrong with a tag.
func (c *Create) Check() error {
	switch {
	case c.Order.Check() != nil:
		return problem.Usage(fmt.Errorf("--order: %w", c.Order.Check()))
	case c.Template && c.First < 1:
		return problem.Usage(fmt.Errorf("--first %d: want 1 or more", c.First))
	case c.Template && !templates.IsPattern(c.Tag):
		return problem.Usage(fmt.Errorf("%.200q is no pattern: it needs a * for a token, or a > for the rest; or leave out --template", c.Tag))
	case !c.Template && (c.MaxTags != nil || c.NewPerSecond != nil):
		return problem.Usage(errors.New("--max-tags and --new-per-second go with --template"))
	case !c.Template && templates.IsPattern(c.Tag):
		return problem.Usage(fmt.Errorf("%s is a pattern: give --template for tags that come into being when they are first asked for", c.Tag))
	case !c.Template:
		return tags.Check(c.tag(), c.MaxStep)
	}
	return cmp.Or(templates.CheckPattern(c.Tag), tags.CheckStep(orDefault(c.Step, defaultStep), c.MaxStep))
}

func (c *Create) tag() store.Tag {
	return store.Tag{Name: c.Tag, Step: orDefault(c.Step, defaultStep), Next: c.First, Order: c.Order}
}

// orDefault is what is given, or the default.
func orDefault(given *int64, otherwise int64) int64 {
	if given != nil {
		return *given
	}
	return otherwise
}

// Do creates a tag or a template.
func (c *Create) Do(ctx context.Context, t *tags.Tags, out report.Printer) error {
	if c.Template {
		return c.createTemplate(ctx, t, out)
	}
	tag := c.tag()
	if tag.Order == "" {
		all, err := t.Templates(ctx)
		if err != nil {
			return err
		}
		if tag.Order = store.Trend; all.Find(tag.Name) != nil {
			tag.Order = all.Find(tag.Name).Order
		}
	}
	err := t.Create(ctx, tag)
	var had *store.OrderError
	if c.Order == "" && errors.As(err, &had) {
		tag.Order = had.Was // which the name keeps
		err = t.Create(ctx, tag)
	}
	switch {
	case err == nil:
		return out.Print(createdTag(tag))
	case c.IfMissing && (errors.Is(err, store.ErrTagExists) || errors.Is(err, store.ErrOrder)):
		return c.compareTag(ctx, t, out, err)
	case errors.Is(err, store.ErrTagExists):
		if have, failed := t.Find(ctx, c.Tag); failed == nil && c.Order != "" && c.Order != have.Order {
			return fmt.Errorf("%w, and is %s: a name keeps its order for ever; choose another name", err, have.Order)
		}
		return fmt.Errorf("%w; change it with: idworker tag set %s --step N", err, c.Tag)
	default:
		return err
	}
}

// createTemplate creates a template.
func (c *Create) createTemplate(ctx context.Context, t *tags.Tags, out report.Printer) error {
	template := templates.Template{
		Pattern: c.Tag, Step: orDefault(c.Step, defaultStep), Order: cmp.Or(c.Order, store.Trend), First: c.First,
		MaxTags: orDefault(c.MaxTags, 0), NewPerSecond: orDefault(c.NewPerSecond, defaultNewPerSecond),
	}
	switch err := t.CreateTemplate(ctx, template); {
	case err == nil:
		return out.Print(createdTemplate{infoOf(template), true})
	case c.IfMissing && errors.Is(err, templates.ErrTemplateExists):
		return c.compareTemplate(ctx, t, out)
	case errors.Is(err, templates.ErrTemplateExists):
		return fmt.Errorf("%w; change it with: idworker tag set '%s'", err, c.Tag)
	default:
		return err
	}
}
