package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

type tagCreateCmd struct {
	tagFlags `embed:""`

	Tag     string `arg:"" help:"Name: A-Z a-z 0-9 _ - and dots between tokens, at most 128 bytes. With --template a pattern: * for any one token, > in the end for the rest, such as 'chat.*'."`
	Step    *int64 `help:"IDs per segment: about what is used in ten minutes at peak. Of a template's tags, what is left when a worker forgets one is a gap. The default is 1000." placeholder:"N"`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`
	First   int64  `help:"The first ID; with --template, that of each new tag." default:"1"`

	Order store.Order `help:"trend: the IDs of each worker go up. strict: every ID is higher than every ID returned to any caller before it was asked for; workers keep none in memory. A name keeps its order for ever (default: that of the template that matches, else trend)." placeholder:"ORDER"`

	Template     bool   `help:"Every tag that matches the pattern comes into being when it is first asked for, with --first as its first ID."`
	MaxTags      *int64 `help:"With --template: how many tags it may make, those that were removed among them; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"With --template: how many tags each loader makes a second; 0 for any number. The default is 1000." placeholder:"N"`

	IfMissing bool `help:"It is no error if there is one already with the settings that are given. What is not given may be different."`

	printFlags `embed:""`
}

const (
	// defaultStep is the step of a tag or a template that is given none.
	defaultStep = 1000

	// defaultNewPerSecond is what a template is given, so that no caller fills a
	// store with made-up names as fast as it can write.
	defaultNewPerSecond = 1000
)

// Run creates a tag or a template.
func (c *tagCreateCmd) Run(ctx context.Context, out output) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		if c.Template {
			return c.createTemplate(ctx, t, out)
		}
		return c.createTag(ctx, t, out)
	})
}

// check refuses arguments that do not go together, and tags that cannot be.
func (c *tagCreateCmd) check() error {
	step := orDefault(c.Step, defaultStep)
	switch pattern := templates.IsPattern(c.Tag); {
	case c.Order.Check() != nil:
		return problem.Usage(fmt.Errorf("--order: %w", c.Order.Check()))
	case c.Template && c.First < 1:
		return problem.Usage(fmt.Errorf("--first %d: want 1 or more", c.First))
	case c.Template && !pattern:
		return problem.Usage(fmt.Errorf("%.200q is no pattern: it needs a * for a token, or a > for the rest; or leave out --template", c.Tag))
	case c.Template:
		return cmp.Or(templates.CheckPattern(c.Tag), checkStep(step, c.MaxStep))
	case c.MaxTags != nil || c.NewPerSecond != nil:
		return problem.Usage(errors.New("--max-tags and --new-per-second go with --template"))
	case pattern:
		return problem.Usage(fmt.Errorf("%s is a pattern: give --template for tags that come into being when they are first asked for", c.Tag))
	}
	if err := cmp.Or(messages.CheckTag(c.Tag), checkStep(step, c.MaxStep), store.Tag{Step: step, Next: c.First}.Check()); err != nil {
		return err
	}
	if _, err := store.Following(c.First, step); err != nil {
		return fmt.Errorf("%w: first ID %d leaves no room for a segment of %d below 2^63", store.ErrBadTag, c.First, step)
	}
	return nil
}

func (c *tagCreateCmd) createTag(ctx context.Context, t *tags.Tags, out output) error {
	tag := store.Tag{Name: c.Tag, Step: orDefault(c.Step, defaultStep), Next: c.First, Order: c.Order}
	if tag.Order == "" {
		all, err := t.Templates(ctx)
		if err != nil {
			return err
		}
		tag.Order = store.Trend
		if template := all.Find(tag.Name); template != nil {
			tag.Order = template.Order
		}
	}
	err := t.Create(ctx, tag)
	if had := new(store.OrderError); c.Order == "" && errors.As(err, &had) {
		tag.Order = had.Was // which the name keeps
		err = t.Create(ctx, tag)
	}
	switch {
	case err == nil:
		return out.Print(tagInfo{
			sentence: sentence(fmt.Sprintf("created %s %s: step %d, first ID %d", kindOf(tag), tag.Name, tag.Step, tag.Next)),
			Tag:      tag.Name, Step: tag.Step, First: tag.Next, Order: tag.Order, Created: new(true),
		})
	case c.IfMissing && (errors.Is(err, store.ErrTagExists) || errors.Is(err, store.ErrOrder)):
		return c.findTag(ctx, t, out, err)
	case errors.Is(err, store.ErrTagExists):
		if have, failed := t.Find(ctx, c.Tag); failed == nil && c.Order != "" && c.Order != have.Order {
			return fmt.Errorf("%w, and is %s: a name keeps its order for ever; choose another name", err, have.Order)
		}
		return fmt.Errorf("%w; change it with: idworker tag set %s --step N", err, c.Tag)
	}
	return err
}

func kindOf(tag store.Tag) string {
	if tag.Order == store.Strict {
		return "strict tag"
	}
	return "tag"
}

func (c *tagCreateCmd) createTemplate(ctx context.Context, t *tags.Tags, out output) error {
	template := templates.Template{
		Pattern: c.Tag, Step: orDefault(c.Step, defaultStep), Order: cmp.Or(c.Order, store.Trend), First: c.First,
		MaxTags: orDefault(c.MaxTags, 0), NewPerSecond: orDefault(c.NewPerSecond, defaultNewPerSecond),
	}
	switch err := t.CreateTemplate(ctx, template); {
	case err == nil:
		made := infoOf(template, "created template %s: %s")
		made.Created = new(true)
		return out.Print(made)
	case c.IfMissing && errors.Is(err, templates.ErrTemplateExists):
		return c.findTemplate(ctx, t, out)
	case errors.Is(err, templates.ErrTemplateExists):
		return fmt.Errorf("%w; change it with: idworker tag set '%s'", err, c.Tag)
	default:
		return err
	}
}

// findTag prints the tag that is there as it was to be created, or returns
// what is different; or why it was not created, if it is not there.
func (c *tagCreateCmd) findTag(ctx context.Context, t *tags.Tags, out output, because error) error {
	tag, err := t.Find(ctx, c.Tag)
	if errors.Is(err, store.ErrNoTag) { // it was removed
		return because
	}
	if err == nil {
		err = c.compare("tag", templates.Template{Step: tag.Step, Order: tag.Order})
	}
	if err != nil {
		return err
	}
	if tag.Next < c.First {
		return fmt.Errorf("tag %s exists and goes on with ID %d, below --first %d; to change it: idworker tag raise %[1]s --next %[3]d", c.Tag, tag.Next, c.First)
	}
	return out.Print(tagInfo{
		sentence: sentence(fmt.Sprintf("%s %s is there: step %d, next ID %d", kindOf(tag), c.Tag, tag.Step, tag.Next)),
		Tag:      c.Tag, Step: tag.Step, Next: tag.Next, Order: tag.Order, Created: new(false),
	})
}

// findTemplate is findTag for a template.
func (c *tagCreateCmd) findTemplate(ctx context.Context, t *tags.Tags, out output) error {
	all, err := t.Templates(ctx)
	if err != nil {
		return err
	}
	have, err := all.Named(c.Tag)
	if err == nil {
		err = c.compare("template", have)
	}
	if err != nil {
		return err
	}
	if have.First < c.First {
		return fmt.Errorf("template %s exists, and its tags begin with ID %d, below --first %d; remove it and create it again, or: idworker tag raise --all --by N", c.Tag, have.First, c.First)
	}
	found := infoOf(have, "template %s is there: %s")
	found.Created = new(false)
	return out.Print(found)
}

// compare returns an error that names the settings that are not as they were
// given, and the command that changes them.
func (c *tagCreateCmd) compare(kind string, have templates.Template) error {
	var told, flags []string
	number := func(name string, given *int64, have int64) {
		if given != nil && *given != have {
			told = append(told, fmt.Sprintf("%s %d, not %d", name, have, *given))
			flags = append(flags, fmt.Sprintf("--%s %d", strings.ReplaceAll(name, " ", "-"), *given))
		}
	}
	number("step", c.Step, have.Step)
	if c.Order != "" && c.Order != have.Order {
		told = append(told, fmt.Sprintf("order %s, not %s", have.Order, c.Order))
	}
	number("max tags", c.MaxTags, have.MaxTags)
	number("new per second", c.NewPerSecond, have.NewPerSecond)
	if len(told) == 0 {
		return nil
	}
	err := fmt.Errorf("%s %s exists with other settings: %s", kind, c.Tag, strings.Join(told, ", "))
	if len(flags) < len(told) { // an order cannot be changed
		return err
	}
	return fmt.Errorf("%w; to change it: idworker tag set '%s' %s", err, c.Tag, strings.Join(flags, " "))
}
