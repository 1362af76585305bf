package tagging

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// Create is tag create.
type Create struct {
	Tag     string `arg:"" help:"Name: A-Z a-z 0-9 _ - and dots between tokens, at most 128 bytes. With --template a pattern: * for any one token, > in the end for the rest, such as 'chat.*'."`
	Step    *int64 `help:"IDs per segment: about what is used in ten minutes at peak. Of a template's tags, what is left when a worker forgets one is a gap. The default is 1000." placeholder:"N"`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`
	First   int64  `help:"The first ID; with --template, that of each new tag." default:"1"`

	Order tagrules.Order `help:"trend: the IDs of each worker go up. strict: every ID is higher than every ID returned to any caller before it was asked for; one worker at a time answers. Without: that of the template that matches, else trend." placeholder:"ORDER"`
	Ended `embed:""`

	Template     bool   `help:"Every tag that matches the pattern comes into being when it is first asked for, with --first as its first ID."`
	MaxTags      *int64 `help:"With --template: how many tags it may make, those that were removed among them; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"With --template: how many tags each loader makes a second; 0 for any number. The default is 1000." placeholder:"N"`

	IfMissing bool `help:"It is no error if there is one already with the settings that are given. What is not given may be different."`
}

// defaultStep is the step of a tag or a template that is given none.
const defaultStep = 1000

// defaultNewPerSecond is what a template is given, so that no caller fills a store with made-up names as fast
// as it can write.
const defaultNewPerSecond = 1000

// Ended says which processes are not waited for.
type Ended struct {
	Ended []string `help:"Where tags become strict: instances that have ended for certain, though they did not say so. They are not waited for, and if their leases have run out, never again." placeholder:"INSTANCE"`
}

// check refuses the flag where nothing becomes strict.
func (e Ended) check(order tagrules.Order) error {
	if len(e.Ended) > 0 && order != tagrules.Strict {
		return explain.Usage(errors.New("--ended goes with --order strict"))
	}
	return nil
}

// Check says which arguments do not go together, and what is wrong with a tag.
func (c *Create) Check() error {
	switch {
	case c.Order != "" && c.Order.Check() != nil:
		return explain.Usage(fmt.Errorf("--order: %w", c.Order.Check()))
	case c.Template && c.First < 1:
		return explain.Usage(fmt.Errorf("--first %d: want 1 or more", c.First))
	case c.Template && !tagrules.IsPattern(c.Tag):
		return explain.Usage(fmt.Errorf("%.200q is no pattern: it needs a * for a token, or a > for the rest; or leave out --template", c.Tag))
	case !c.Template && (c.MaxTags != nil || c.NewPerSecond != nil):
		return explain.Usage(errors.New("--max-tags and --new-per-second go with --template"))
	case !c.Template && tagrules.IsPattern(c.Tag):
		return explain.Usage(fmt.Errorf("%s is a pattern: give --template for tags that come into being when they are first asked for", c.Tag))
	case !c.Template:
		return errors.Join(tags.Check(c.tag(), c.MaxStep), c.check(c.Order))
	}
	return errors.Join(tagrules.CheckPattern(c.Tag), c.check(c.Order))
}

func (c *Create) tag() store.Tag {
	return store.Tag{Name: c.Tag, Step: orDefault(c.Step, defaultStep), Next: c.First}
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
	if err := t.Orders.DeclareEnded(ctx, c.Ended.Ended); err != nil {
		return err
	}
	if c.Template {
		return c.createTemplate(ctx, t, out)
	}
	order, err := c.order(ctx, t)
	if err != nil {
		return err
	}
	create := t.Create
	if order == tagrules.Strict {
		create = t.CreateStrict
	}
	err = create(ctx, c.tag())
	if c.isThere(err) {
		return c.compareTag(ctx, t, out)
	}
	if errors.Is(err, store.ErrTagExists) && !errors.Is(err, tags.ErrTemplateRemoved) {
		return fmt.Errorf("%w; change it with: idworker tag set %s --step N", err, c.Tag)
	}
	if err != nil {
		return err
	}
	return out.Print(createdTag(c.tag(), order))
}

// order is the order of a tag: if none is given, that of its template.
func (c *Create) order(ctx context.Context, t *tags.Tags) (tagrules.Order, error) {
	if c.Order != "" {
		return c.Order, nil
	}
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return "", err
	}
	if template := rules.Lookup(c.Tag).Template; template != nil {
		return template.Order, nil
	}
	return tagrules.Trend, nil
}

// createTemplate creates a template.
func (c *Create) createTemplate(ctx context.Context, t *tags.Tags, out report.Printer) error {
	template := tagrules.Template{
		Pattern: c.Tag, Step: orDefault(c.Step, defaultStep), Order: cmp.Or(c.Order, tagrules.Trend), First: c.First,
		MaxTags: orDefault(c.MaxTags, 0), NewPerSecond: orDefault(c.NewPerSecond, defaultNewPerSecond),
	}
	err := t.CreateTemplate(ctx, template, c.MaxStep)
	if c.isThere(err) {
		return c.compareTemplate(ctx, t, out)
	}
	if errors.Is(err, tagrules.ErrTemplateExists) {
		return fmt.Errorf("%w; change it with: idworker tag set '%s'", err, c.Tag)
	}
	if err != nil {
		return err
	}
	return out.Print(createdTemplate{infoOf(template), true})
}
