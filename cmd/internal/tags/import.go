package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// Import changes things in an order in which it may break off anywhere, and be run again:
//
//  1. The first IDs of the templates that exist are raised to those in the list, and the other templates
//     are written as ones that were removed. So it is known which tags are theirs, and nobody makes such a
//     tag before it is imported.
//  2. Tags become strict, in the same way and with the same wait as by [Tags.SetOrder]. Without workers
//     there is nobody to wait for.
//  3. The tags are created and raised.
//  4. The templates come into force, the strict ones first, each as by [Tags.CreateTemplate].
//  5. The tags that were created by name beside a template get their places in the directory.

// Import brings the templates and tags of a list into the store: one that is missing is created, no lower than
// where tags, and those of its template, may be created here, and a tag that exists is raised, never lowered; its step stays, and so do the templates that exist. A tag
// that is strict in the list becomes strict, and none that is strict here becomes an ordinary one. It
// reports each, a tag that was created with Before 0, and stops at the first error. Errors:
// [ErrNotActed], before any tag is changed, and those of [Tags.CreateTemplate].
func (t *Tags) Import(ctx context.Context, all Transfer, report func(Raised)) error {
	there, err := t.List(ctx)
	if err != nil {
		return err
	}
	existing := make(map[string]store.Tag, len(there))
	for _, tag := range there {
		existing[tag.Name] = tag
	}
	before, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	templates, err := t.announceTemplates(ctx, all.Templates)
	if err != nil {
		return err
	}
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	if err := t.importOrders(ctx, rules, existing, all); err != nil {
		return err
	}
	for _, tag := range all.Tags {
		if _, first := before.First(tag.Name); existing[tag.Name].Name == "" { // as if a template made it
			tag.Next = max(tag.Next, first, t.store.Lowest())
		}
		raised, err := t.importTag(ctx, existing[tag.Name], tag, rules.FromTemplate)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag.Name, err)
		}
		raised.Order = all.Orders[tag.Name]
		report(raised)
	}
	for _, template := range templates {
		if err := t.CreateTemplate(ctx, template, math.MaxInt64); err != nil {
			return fmt.Errorf("template %s: %w", template.Pattern, err)
		}
		report(Raised{Tag: template.Pattern, Template: true, Order: template.Order})
	}
	return t.importNamed(ctx, all)
}

// importNamed makes tags ones that were created by name, beside their templates.
func (t *Tags) importNamed(ctx context.Context, all Transfer) error {
	if len(all.Named) == 0 {
		return nil
	}
	steps, err := t.directory.Steps(ctx)
	if err != nil {
		return err
	}
	for _, tag := range all.Tags {
		if _, there := steps[tag.Name]; there || !all.Named[tag.Name] {
			continue
		}
		if err := t.SetStep(ctx, tag.Name, tag.Step); err != nil {
			return fmt.Errorf("tag %s: %w", tag.Name, err)
		}
	}
	return nil
}

// announceTemplates writes templates as removed ones, and returns those that are to come into force. It
// finds out before whether they may.
func (t *Tags) announceTemplates(ctx context.Context, list []tagrules.Template) (missing []tagrules.Template, err error) {
	if _, _, err := t.Orders.editor.RaiseFirst(ctx, func(here tagrules.Template) (first int64) {
		for _, template := range list {
			if tagrules.Overlap(here.Pattern, template.Pattern) {
				first = max(first, template.FirstID())
			}
		}
		return first
	}); err != nil {
		return nil, err
	}
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return nil, err
	}
	here := rules.Templates()
	var unknown []tagrules.Template
	for _, template := range list {
		if at := slices.IndexFunc(here, func(h tagrules.Template) bool { return h.Pattern == template.Pattern }); at >= 0 {
			if here[at].Becoming && template.Order == tagrules.Strict { // that broke off
				missing = append(missing, here[at])
			}
			continue
		}
		was, known := rules.Removed(template.Pattern)
		known = known && was.Order == template.Order
		if !template.Removed {
			missing = append(missing, template)
			err = errors.Join(err, t.checkImport(ctx, rules, template, known))
		}
		if !known {
			unknown = append(unknown, template)
		}
	}
	if len(missing) > 0 {
		err = errors.Join(err, t.store.CheckFirst(ctx))
	}
	if err != nil {
		return nil, err
	}
	for _, template := range unknown {
		template.Removed = true
		if _, err := t.Orders.editor.CreateTemplate(ctx, template); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(missing, func(a, b tagrules.Template) int { return cmp.Compare(a.Order, b.Order) }) // strict, trend
	return missing, nil
}

// checkImport finds out whether a template can be imported beside those that are here. A strict one cannot
// if an ordinary one answers for its tags, from when they are imported until it is there.
func (t *Tags) checkImport(ctx context.Context, rules *tagrules.Rules, template tagrules.Template, known bool) error {
	if err := t.checkByName(ctx, template.Pattern); err != nil {
		return err
	}
	if template.Order != tagrules.Strict {
		return nil
	}
	for _, h := range rules.Templates() {
		if h.Order != tagrules.Strict && tagrules.Overlap(h.Pattern, template.Pattern) {
			return fmt.Errorf("%w: %s is strict, and %s, which is here, is not", ErrTrendTags, template.Pattern, h.Pattern)
		}
	}
	if !known { // else what there is was imported before
		if err := t.checkTrend(ctx, rules, template); err != nil {
			return err
		}
	}
	return t.Orders.AwaitAll(ctx, 0)
}

// importOrders gives tags the orders of a list.
func (t *Tags) importOrders(ctx context.Context, rules *tagrules.Rules, existing map[string]store.Tag, all Transfer) error {
	var strict []string
	for _, tag := range all.Tags {
		_, has := rules.Own(tag.Name)
		switch order := all.Orders[tag.Name]; {
		case order == tagrules.Strict: // also if it is already, for that may have broken off
			strict = append(strict, tag.Name)
		case order == tagrules.Trend && !has && existing[tag.Name].Name == "":
			if _, err := t.Orders.editor.SetOrder(ctx, tag.Name, order); err != nil {
				return err
			}
		}
	}
	if len(strict) == 0 {
		return nil
	}
	return t.makeStrict(ctx, strict...)
}

func (t *Tags) importTag(ctx context.Context, existing, tag store.Tag, fromTemplate func(string) bool) (Raised, error) {
	switch {
	case existing.Name != "":
		return t.raise(ctx, existing, tag.Next)
	case tag.Step == 0:
		return t.importRemoved(ctx, tag)
	}
	create := t.create
	if fromTemplate(tag.Name) {
		create = t.store.CreateTag // it has no place in the directory
	}
	err := create(ctx, tag)
	if errors.Is(err, store.ErrTagExists) { // created meanwhile
		return t.Raise(ctx, tag.Name, tag.Next)
	}
	return Raised{Tag: tag.Name, Now: tag.Next}, err
}

// importRemoved makes the store remember a removed tag: by creating and removing it, if it does not.
func (t *Tags) importRemoved(ctx context.Context, tag store.Tag) (Raised, error) {
	raised := Raised{Tag: tag.Name, Now: tag.Next, Removed: true}
	err := t.store.RaiseRemoved(ctx, tag.Name, tag.Next)
	if !errors.Is(err, store.ErrNoTag) {
		return raised, err
	}
	if err := t.store.CreateTag(ctx, store.Tag{Name: tag.Name, Step: 1, Next: tag.Next}); err != nil {
		return raised, err
	}
	return raised, t.store.RemoveTag(ctx, tag.Name)
}
