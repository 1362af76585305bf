package tagging

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/store"
)

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
func (d *differences) order(given, have store.Order) {
	if given != "" && given != have {
		d.told = append(d.told, fmt.Sprintf("order %s, not %s", have, given))
	}
}

// err is the error about them, nil if there are none.
func (d *differences) err(kind, name string) error {
	if len(d.told) == 0 {
		return nil
	}
	err := fmt.Errorf("%s %s exists with other settings: %s", kind, name, strings.Join(d.told, ", "))
	if len(d.flags) < len(d.told) { // an order cannot be changed
		return err
	}
	return fmt.Errorf("%w; to change it: idworker tag set '%s' %s", err, name, strings.Join(d.flags, " "))
}

// compareTag prints that the tag is there as it was to be created, or returns
// what is different; or why it was not created, if it is not there.
func (c *Create) compareTag(ctx context.Context, t *tags.Tags, out report.Printer, because error) error {
	tag, err := t.Find(ctx, c.Tag)
	if errors.Is(err, store.ErrNoTag) { // it was removed
		return because
	}
	if err != nil {
		return err
	}
	var d differences
	d.number("step", c.Step, tag.Step)
	d.order(c.Order, tag.Order)
	if err := d.err("tag", c.Tag); err != nil {
		return err
	}
	if tag.Next < c.First {
		return fmt.Errorf("tag %s exists and goes on with ID %d, below --first %d; to change it: idworker tag raise %[1]s --next %[3]d", c.Tag, tag.Next, c.First)
	}
	return out.Print(created{tagInfo: tagInfo{Tag: c.Tag, Step: tag.Step, Next: tag.Next, Order: tag.Order}})
}

// compareTemplate is compareTag for a template.
func (c *Create) compareTemplate(ctx context.Context, t *tags.Tags, out report.Printer) error {
	all, err := t.Templates(ctx)
	if err != nil {
		return err
	}
	have, err := all.Named(c.Tag)
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
	if have.First < c.First {
		return fmt.Errorf("template %s exists, and its tags begin with ID %d, below --first %d; remove it and create it again, or: idworker tag raise --all --by N", c.Tag, have.First, c.First)
	}
	return out.Print(createdTemplate{templateInfo: infoOf(have)})
}
