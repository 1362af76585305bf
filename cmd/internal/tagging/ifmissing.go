package tagging

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// isThere reports whether a creation failed for no other reason than that there is one already, which
// --if-missing allows. One that is not answered, since its template was removed, is not there.
func (c *Create) isThere(err error) bool {
	exists := errors.Is(err, store.ErrTagExists) || errors.Is(err, tagrules.ErrTemplateExists)
	return c.IfMissing && exists && !errors.Is(err, tags.ErrTemplateRemoved)
}

// differences are the settings that are not as they were given.
type differences struct{ told, flags []string }

// number compares a number that was given, if it was.
func (d *differences) number(name string, given *int64, have int64) {
	if given != nil && *given != have {
		d.told = append(d.told, fmt.Sprintf("%s %d, not %d", name, have, *given))
		d.flags = append(d.flags, fmt.Sprintf("--%s %d", strings.ReplaceAll(name, " ", "-"), *given))
	}
}

// order compares an order that was given, if it was.
func (d *differences) order(given, have tagrules.Order) {
	if given != "" && given != have {
		d.told = append(d.told, fmt.Sprintf("order %s, not %s", have, given))
		d.flags = append(d.flags, "--order "+string(given))
	}
}

// err is the error about them, nil if there are none.
func (d *differences) err(kind, name string) error {
	if len(d.told) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s exists with other settings: %s; to change it: idworker tag set '%[2]s' %[4]s",
		kind, name, strings.Join(d.told, ", "), strings.Join(d.flags, " "))
}

// compareTag says that the tag is there as it was to be created, or what is different.
func (c *Create) compareTag(ctx context.Context, t *tags.Tags, out report.Printer) error {
	listing, err := t.ListAll(ctx, c.Tag)
	if len(listing.Tags) == 0 {
		return errors.Join(fmt.Errorf("%w: %s", store.ErrNoTag, c.Tag), err) // it was removed meanwhile, or cannot be read
	}
	tag, order := listing.Tags[0], listing.Rules.Lookup(c.Tag).Order
	var d differences
	d.number("step", c.Step, tag.Step)
	d.order(c.Order, order)
	if err := d.err("tag", c.Tag); err != nil {
		return err
	}
	if tag.Next < c.First {
		return fmt.Errorf("tag %s exists and goes on with ID %d, below --first %d; to change it: idworker tag raise %[1]s --next %[3]d", c.Tag, tag.Next, c.First)
	}
	if _, own := listing.Rules.Own(c.Tag); own && c.Order == tagrules.Strict {
		// Whoever made it strict may have been interrupted.
		if err := t.SetOrder(ctx, c.Tag, tagrules.Strict); err != nil {
			return err
		}
	}
	return out.Print(created{tagInfo: tagInfo{Tag: c.Tag, Step: tag.Step, Next: tag.Next, Order: order}})
}

// compareTemplate is compareTag for a template.
func (c *Create) compareTemplate(ctx context.Context, t *tags.Tags, out report.Printer) error {
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	have, err := rules.Template(c.Tag)
	if err != nil {
		return err
	}
	var d differences
	d.number("step", c.Step, have.Step)
	d.order(c.Order, have.Order)
	d.number("max tags", c.MaxTags, have.MaxTags)
	d.number("new per second", c.NewPerSecond, have.NewPerSecond)
	if err := d.err("template", c.Tag); err != nil {
		return err
	}
	have.First = max(have.FirstID(), t.Lowest())
	if have.First < c.First {
		return fmt.Errorf("template %s exists, and its tags begin with ID %d, below --first %d; tags begin higher after: idworker tag raise --all --by N", c.Tag, have.First, c.First)
	}
	return out.Print(createdTemplate{templateInfo: infoOf(have)})
}
