package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
)

type tagCreateCmd struct {
	tagFlags `embed:""`

	Tag     string `arg:"" help:"Name, or with --template a pattern such as 'chat.*'."`
	Step    *int64 `help:"Least number of IDs per segment (default: 1000)." placeholder:"N"`
	MaxStep int64  `help:"Largest allowed step, as serve --max-step." default:"1000000"`
	First   *int64 `help:"First ID; of a template, each tag's (default: lowest allowed)." placeholder:"ID"`

	Order store.Order `help:"Order: trend or strict (default: the template's, or trend)." placeholder:"ORDER"`

	Template     bool   `help:"Create matching tags at their first request."`
	MaxTags      *int64 `help:"Template: most tags (0: unlimited; default: a million)." placeholder:"N"`
	NewPerSecond *int64 `help:"Template: new tags a second per loader (0: unlimited; default: 1000)." placeholder:"N"`

	Dated string         `help:"Template: date format of the last token." placeholder:"yyyyMMdd"`
	Ahead *time.Duration `help:"Template: earliest use before a date (default: 24h)." placeholder:"24h"`

	IfMissing bool `help:"Succeed if it exists with these settings."`
	Unused    bool `help:"Begin at 1: the name was never used." env:"-"`
	Yes       bool `help:"Skip the prompt of --unused; allow a template's --first after a raise." env:"-"`

	printFlags `embed:""`
}

const (
	// defaultStep is the step of a tag or template without --step.
	defaultStep = 1000

	// defaultNewPerSecond keeps callers from filling a store with invented
	// names as fast as it can write.
	defaultNewPerSecond = 1000

	// defaultMaxTags keeps them from filling it at all: a tag takes about 250
	// bytes.
	defaultMaxTags = 1_000_000
)

// Run creates a tag or a template.
func (c *tagCreateCmd) Run(ctx context.Context, in input, out output) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		if c.Template {
			return c.createTemplate(ctx, t, out)
		}
		if c.Unused {
			if err := c.confirmUnused(ctx, t, in, out); err != nil {
				return err
			}
		}
		return c.createTag(ctx, t, out)
	})
}

// check rejects conflicting arguments and impossible tags.
func (c *tagCreateCmd) check() error {
	step, first := orDefault(c.Step, defaultStep), orDefault(c.First, 1)
	switch pattern := templates.IsPattern(c.Tag); {
	case c.Order.Check() != nil:
		return problem.Usage(fmt.Errorf("--order: %w", c.Order.Check()))
	case c.Template && first < 1:
		return problem.Usage(fmt.Errorf("--first %d: allowed is 1 or more", first))
	case c.Unused && (c.Template || c.IfMissing):
		return problem.Usage(errors.New("--unused excludes --template and --if-missing: it holds only now, and for this name"))
	case c.Ahead != nil && c.Dated == "":
		return problem.Usage(errors.New("--ahead needs --dated"))
	case c.Template && !pattern:
		return problem.Usage(fmt.Errorf("%.200q is not a pattern; use * for a token or > for the rest, or omit --template", c.Tag))
	case c.Template:
		return cmp.Or(templates.CheckPattern(c.Tag), checkStep(step, c.MaxStep), c.template().Check())
	case c.MaxTags != nil || c.NewPerSecond != nil || c.Dated != "":
		return problem.Usage(errors.New("--max-tags, --new-per-second and --dated need --template"))
	case pattern:
		return problem.Usage(fmt.Errorf("%s is a pattern; add --template to create a template", c.Tag))
	}
	if err := cmp.Or(messages.CheckTag(c.Tag), checkStep(step, c.MaxStep), store.Tag{Step: step, Next: first}.Check()); err != nil {
		return err
	}
	if _, err := store.Following(first, step); err != nil {
		return fmt.Errorf("%w: first ID %d leaves no room for a segment of %d below 2^63", store.ErrBadTag, first, step)
	}
	return nil
}

// confirmUnused prompts for the name, unless tags that were in use may still be
// missing.
func (c *tagCreateCmd) confirmUnused(ctx context.Context, t *tags.Tags, in input, out output) error {
	heard, err := t.CheckUnused(ctx)
	if err != nil || c.Yes {
		return err
	}
	effect := fmt.Sprintf("If IDs of %s were ever issued, they will be issued again.", c.Tag)
	if !heard {
		effect += " No process reported whether the register regressed."
	}
	return confirm(ctx, c.Tag, effect+typeName, "created", in, out)
}

// create creates the tag, at the lowest first ID that is allowed unless the
// user chose another.
func (c *tagCreateCmd) create(ctx context.Context, t *tags.Tags, tag store.Tag) (store.Tag, error) {
	if c.First == nil && !c.Unused {
		return t.CreateLowest(ctx, tag)
	}
	tag.Next = orDefault(c.First, 1)
	if c.Unused {
		tag.Earliest = store.NeverUsed
	}
	return tag, t.Create(ctx, tag)
}

func (c *tagCreateCmd) createTag(ctx context.Context, t *tags.Tags, out output) error {
	tag := store.Tag{Name: c.Tag, Step: orDefault(c.Step, defaultStep), Order: c.Order}
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
	tag, err := c.create(ctx, t, tag)
	if had := new(store.OrderError); c.Order == "" && errors.As(err, &had) {
		tag.Order = had.Was // a name keeps its order
		tag, err = c.create(ctx, t, tag)
	}
	switch {
	case err == nil:
		text := fmt.Sprintf("created %s %s: step %d, first ID %d", kindOf(tag), tag.Name, tag.Step, tag.Next)
		if c.First == nil && tag.Next > 1 {
			text += ", because a tag of that name may have issued those below"
		}
		return out.Print(tagInfo{
			sentence: sentence(text),
			Tag:      tag.Name, Step: tag.Step, First: tag.Next, Order: tag.Order, Created: new(true),
		})
	case c.IfMissing && (errors.Is(err, store.ErrTagExists) || errors.Is(err, store.ErrOrder)):
		return c.findTag(ctx, t, out, err)
	case errors.Is(err, store.ErrTagExists):
		return fmt.Errorf("%w; change it with: idworker tag set %s --step N, but a name keeps its order", err, c.Tag)
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
	template := c.template()
	if lowest := t.Lowest(); lowest > 1 && template.FirstID() > lowest && (c.IfMissing || !c.Yes) {
		if c.IfMissing {
			if err := c.findTemplate(ctx, t, out); !errors.Is(err, templates.ErrNoTemplate) {
				return err
			}
		}
		return problem.Usage(fmt.Errorf("--first %d: lost tags of that pattern may have issued IDs above; omit it to begin at %d, or give one above all their IDs, "+
			"with --yes and without --if-missing", template.FirstID(), lowest))
	}
	switch err := t.CreateTemplate(ctx, template); {
	case err == nil:
		layout := "created template %s: %s"
		if lowest := t.Lowest(); template.FirstID() < lowest {
			template.First = lowest
			layout += fmt.Sprintf(", first ID %d, because tags may have been lost", lowest)
		}
		made := infoOf(template, layout)
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

// template returns the template to be created.
func (c *tagCreateCmd) template() templates.Template {
	template := templates.Template{
		Pattern: c.Tag, Step: orDefault(c.Step, defaultStep), Order: cmp.Or(c.Order, store.Trend), First: orDefault(c.First, 0),
		MaxTags: orDefault(c.MaxTags, defaultMaxTags), NewPerSecond: orDefault(c.NewPerSecond, defaultNewPerSecond),
	}
	if c.Dated != "" {
		template.Dates = templates.Dates{Dated: c.Dated, Ahead: c.ahead()}
	}
	return template
}

// ahead returns --ahead in seconds, rounded up.
func (c *tagCreateCmd) ahead() int64 {
	ahead := templates.DefaultAhead
	if c.Ahead != nil {
		ahead = *c.Ahead
	}
	return int64(math.Ceil(ahead.Seconds()))
}

// findTag prints an existing tag if it has the given settings, or returns the
// differences. If the tag is gone, it returns because.
func (c *tagCreateCmd) findTag(ctx context.Context, t *tags.Tags, out output, because error) error {
	tag, err := t.Find(ctx, c.Tag)
	if errors.Is(err, store.ErrNoTag) { // it was removed
		return because
	}
	if err := cmp.Or(err, c.compare(templates.Template{Step: tag.Step, Order: tag.Order, First: tag.Next})); err != nil {
		return err
	}
	return out.Print(tagInfo{
		sentence: sentence(fmt.Sprintf("%s %s exists: step %d, next ID %d", kindOf(tag), c.Tag, tag.Step, tag.Next)),
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
	if err := cmp.Or(err, c.compare(have)); err != nil {
		return err
	}
	found := infoOf(have, "template %s exists: %s")
	found.Created = new(false)
	return out.Print(found)
}

// compare returns an error that lists the settings that differ, and the commands
// that change them, if all can be changed. The first ID of a tag is its next.
func (c *tagCreateCmd) compare(have templates.Template) error {
	want := c.template()
	want.First = max(want.First, 1)
	kind, raise := "tag", fmt.Sprintf("idworker tag raise %s --next %d", c.Tag, want.First)
	if c.Template {
		kind, raise = "template", "idworker tag raise --all --by N, or create it again"
	}
	var different, commands []string
	flags := ""
	differ := func(given bool, name string, have, want any) {
		if given && have != want {
			different = append(different, fmt.Sprintf("%s %v, not %v", name, have, want))
			flags += fmt.Sprintf(" --%s %v", strings.ReplaceAll(name, " ", "-"), want)
		}
	}
	differ(c.Step != nil, "step", have.Step, want.Step)
	differ(c.MaxTags != nil, "max tags", have.MaxTags, want.MaxTags)
	differ(c.NewPerSecond != nil, "new per second", have.NewPerSecond, want.NewPerSecond)
	if flags != "" {
		commands = append(commands, fmt.Sprintf("idworker tag set '%s'%s", c.Tag, flags))
	}
	if have.First < want.First {
		different = append(different, fmt.Sprintf("IDs from %d on, below --first %d", have.First, want.First))
		commands = append(commands, raise)
	}
	changeable := len(different)
	differ(c.Order != "", "order", have.Order, want.Order)
	if c.Dated != "" && have.Dates != want.Dates {
		different = append(different, fmt.Sprintf("%s, not %s", cmp.Or(datesOf(have.Dates), "no dates"), datesOf(want.Dates)))
	}
	if len(different) == 0 {
		return nil
	}
	err := fmt.Errorf("%s %s exists with other settings: %s", kind, c.Tag, strings.Join(different, ", "))
	if len(different) > changeable {
		return err
	}
	return fmt.Errorf("%w; to change it: %s", err, strings.Join(commands, "; "))
}
