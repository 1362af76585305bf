package tags

import (
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/store"
)

// Import brings the tags and then the templates of a list into the store. A tag
// that is missing is created, no lower than the store allows; one that exists
// is raised, never lowered, and keeps its step. A template that exists stays,
// but for its first ID, which is raised. Import reports each tag, one that was
// created with Before 0, and each template that it made. It may break off
// anywhere, and be run again.
//
// Before anything is changed it looks whether the list goes with what is here.
// Errors: store.ErrOrder, as a name keeps its order, store.ErrSetup, and those
// of templates.Create.
func (t *Tags) Import(ctx context.Context, all Transfer, report func(Raised)) error {
	existing, removed, err := t.names(ctx)
	if err != nil {
		return err
	}
	for _, tag := range all.Tags {
		for _, here := range []store.Tag{existing[tag.Name], removed[tag.Name]} {
			if err := checkOrder(here, tag); err != nil {
				return err
			}
		}
	}
	together, err := t.join(ctx, all.Templates)
	if err != nil {
		return err
	}
	for _, tag := range all.Tags {
		if existing[tag.Name].Name == "" {
			tag.Next = max(tag.Next, removed[tag.Name].Next, t.store.Lowest())
		}
		raised, err := t.importTag(ctx, existing[tag.Name], tag)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag.Name, err)
		}
		raised.Order = tag.Order
		report(raised)
	}
	for _, template := range together { // the most specific first: it decides the order of its tags
		listed, err := all.Templates.Named(template.Pattern)
		if err != nil {
			continue // it was here
		}
		if err := t.importTemplate(ctx, listed, report); err != nil {
			return fmt.Errorf("template %s: %w", listed.Pattern, err)
		}
	}
	return nil
}

// checkOrder returns a store.ErrOrder if a tag has another order here than in a
// list.
func checkOrder(here, listed store.Tag) error {
	if here.Name == "" || here.Order == listed.Order {
		return nil
	}
	return &store.OrderError{Tag: listed.Name, Was: here.Order, Want: listed.Order}
}

// names returns the tags, and the removed ones, by name.
func (t *Tags) names(ctx context.Context) (existing, removed map[string]store.Tag, err error) {
	for _, list := range []struct {
		to   *map[string]store.Tag
		read func(context.Context) ([]store.Tag, error)
	}{{&existing, t.List}, {&removed, t.store.Removed}} {
		tags, err := list.read(ctx)
		if err != nil {
			return nil, nil, err
		}
		*list.to = make(map[string]store.Tag, len(tags))
		for _, tag := range tags {
			(*list.to)[tag.Name] = tag
		}
	}
	return existing, removed, nil
}

// join returns the templates that are here with those of a list.
func (t *Tags) join(ctx context.Context, list templates.List) (templates.List, error) {
	together, err := templates.Read(ctx, t.js, t.prefix)
	if err != nil {
		return nil, err
	}
	here := len(together)
	for _, template := range list {
		if _, err := together.Named(template.Pattern); err == nil {
			continue
		}
		if together, err = together.With(template); err != nil {
			return nil, err
		}
	}
	if len(together) > here {
		err = t.store.CheckFirst(ctx)
	}
	return together, err
}

func (t *Tags) importTemplate(ctx context.Context, template templates.Template, report func(Raised)) error {
	err := t.ChangeTemplate(ctx, template.Pattern, func(here *templates.Template) {
		here.First = max(here.First, template.First)
	})
	if !errors.Is(err, templates.ErrNoTemplate) {
		return err
	}
	if err := t.CreateTemplate(ctx, template); err != nil {
		return err
	}
	report(Raised{Tag: template.Pattern, Template: true, Order: template.Order})
	return nil
}

func (t *Tags) importTag(ctx context.Context, existing, tag store.Tag) (Raised, error) {
	switch {
	case existing.Name != "":
		return t.raise(ctx, existing, tag.Next)
	case tag.Step == 0:
		return t.importRemoved(ctx, tag)
	}
	err := t.Create(ctx, tag)
	if errors.Is(err, store.ErrTagExists) { // created meanwhile
		if existing, err = t.Find(ctx, tag.Name); err == nil {
			err = checkOrder(existing, tag)
		}
		if err != nil {
			return Raised{}, err
		}
		return t.raise(ctx, existing, tag.Next)
	}
	return Raised{Tag: tag.Name, Now: tag.Next}, err
}

// importRemoved makes the store remember a removed tag: by creating and
// removing it, if it does not.
func (t *Tags) importRemoved(ctx context.Context, tag store.Tag) (Raised, error) {
	raised := Raised{Tag: tag.Name, Now: tag.Next, Removed: true}
	err := t.store.RaiseRemoved(ctx, tag.Name, tag.Next)
	if !errors.Is(err, store.ErrNoTag) {
		return raised, err
	}
	tag.Step = 1
	if err := t.store.CreateTag(ctx, tag); err != nil {
		return raised, err
	}
	return raised, t.store.RemoveTag(ctx, tag.Name)
}
