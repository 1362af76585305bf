package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
)

// Import brings the tags and then the templates of a list into the store. It
// creates missing tags, no lower than the store allows. It raises existing tags
// but never lowers them, and keeps their steps. Of an existing template it only
// raises the first ID. Import reports each tag, and each created template. It
// may fail at any point, and can be repeated.
//
// Before any change it checks that the list fits the existing tags. Errors:
// store.ErrOrder, because a name keeps its order, store.ErrSetup, and those of
// templates.Create.
//
// A list with a floor says that names which it does not have may have been used
// below, until the time of its decision. If the floor here is lower, or decided
// earlier, such an import is a raise: no loader grants until the floor is
// decided.
func (t *Tags) Import(ctx context.Context, list Listing, report func(Change)) error {
	here, err := register.Look(ctx, t.JetStream, t.Prefix)
	if err != nil {
		return err
	}
	later := list.Floor > 1 && !here.Decided.IsZero() && list.Decided.After(here.Decided)
	if list.Floor <= here.Floor && !later {
		return t.importAll(ctx, list, report)
	}
	k, err := ask(ctx, t.JetStream, t.Prefix, "", time.Now)
	if err != nil {
		return err
	}
	k.addTime("the latest decision in the list", list.Decided)
	if err := cmp.Or(k.checkClocks(), k.checkWhole()); err != nil {
		return err
	}
	// Before the mark, which stops all grants.
	unlisted, err := t.store.CheckImport(ctx, list.Tags)
	if err = cmp.Or(err, t.checkTemplates(ctx, list)); err != nil {
		return named(err, "")
	}
	if unlisted > 0 { // the register may have regressed unnoticed
		return fmt.Errorf("%w: %d tags here are not in the list", ErrRaiseFirst, unlisted)
	}
	raise := register.OldRaise{Target: max(list.Floor, store.Beyond(k.state.Floor, 1)), Now: k.time}
	_, err = t.store.DecideAfter(ctx, raise, func(ctx context.Context, _ register.OldRaise) error {
		return t.importAll(ctx, list, report)
	})
	return err
}

func (t *Tags) importAll(ctx context.Context, list Listing, report func(Change)) error {
	tell := func(tag store.Tag, before int64) {
		c := changeOf(tag, before)
		c.Order = tag.Order
		report(c)
	}
	var err error
	if t.store.Database == nil {
		err = named(t.store.Import(ctx, list.Tags, func() error { return t.checkTemplates(ctx, list) }, tell), "")
	} else {
		err = t.importRows(ctx, list, tell)
	}
	if err != nil {
		return err
	}
	made, err := templates.Import(ctx, t.JetStream, t.Prefix, list.Templates)
	if err != nil {
		return err
	}
	for _, template := range made {
		report(Change{Tag: template.Pattern, Order: template.Order, Template: true})
	}
	return nil
}

// checkTemplates checks that the templates of a list fit those here.
func (t *Tags) checkTemplates(ctx context.Context, list Listing) error {
	present, err := templates.Read(ctx, t.JetStream, t.Prefix)
	if err != nil {
		return err
	}
	_, made, err := present.Join(list.Templates)
	if err == nil && len(made) > 0 {
		err = t.store.CheckFirst(ctx)
	}
	return err
}

// importsAtOnce is the number of tags that are imported into a table at the same
// time: three writes each.
const importsAtOnce = 16

// importRows imports the tags of a list into a table.
func (t *Tags) importRows(ctx context.Context, list Listing, report func(tag store.Tag, before int64)) error {
	here, err := t.here(ctx)
	if err != nil {
		return err
	}
	for _, tag := range list.Tags {
		if err := checkOrder(here[tag.Name], tag); err != nil {
			return err
		}
	}
	if err := t.checkTemplates(ctx, list); err != nil {
		return err
	}
	imports, ctx := errgroup.WithContext(ctx)
	imports.SetLimit(importsAtOnce)
	var reports sync.Mutex
	for _, tag := range list.Tags {
		imports.Go(func() error {
			tag, before, err := t.importTag(ctx, here[tag.Name], tag)
			if err != nil {
				return fmt.Errorf("tag %s: %w", tag.Name, err)
			}
			reports.Lock()
			defer reports.Unlock()
			report(tag, before)
			return nil
		})
	}
	return imports.Wait()
}

// here returns the tags by name; removed tags have step 0.
func (t *Tags) here(ctx context.Context) (map[string]store.Tag, error) {
	existing, err := t.store.Tags(ctx)
	if err != nil {
		return nil, err
	}
	removed, err := t.store.Removed(ctx)
	here := make(map[string]store.Tag)
	for _, tag := range existing {
		tag.Step = max(1, tag.Step) // a row may have any step
		here[tag.Name] = tag
	}
	for _, tag := range removed {
		here[tag.Name] = tag
	}
	return here, err
}

// checkOrder returns a store.ErrOrder if a tag has another order here than in
// the list.
func checkOrder(here, listed store.Tag) error {
	if here.Name == "" || here.Order == listed.Order {
		return nil
	}
	return &store.OrderError{Tag: listed.Name, Was: here.Order, Want: listed.Order}
}

// importTag imports a tag that exists, was removed, or is new here. It returns
// the tag with its next ID, and that before, 0 if it did not exist.
func (t *Tags) importTag(ctx context.Context, here, tag store.Tag) (_ store.Tag, before int64, err error) {
	if here.Step > 0 {
		return t.raiseListed(ctx, here, tag.Next)
	}
	tag.Next = max(tag.Next, here.Next, t.store.Lowest())
	if tag.Step == 0 {
		return tag, 0, t.importRemoved(ctx, tag)
	}
	tag.Earliest = store.NeverUsed // the list has what was used
	err = t.Create(ctx, tag)
	if !errors.Is(err, store.ErrTagExists) {
		return tag, 0, err
	}
	// The tag was created after Import listed the tags.
	here, err = t.Find(ctx, tag.Name)
	if err == nil {
		err = checkOrder(here, tag)
	}
	if err != nil {
		return tag, 0, err
	}
	return t.raiseListed(ctx, here, tag.Next)
}

func (t *Tags) raiseListed(ctx context.Context, here store.Tag, next int64) (tag store.Tag, before int64, err error) {
	change, err := t.raise(ctx, here, next)
	here.Next = change.Next
	return here, change.Before, err
}

// importRemoved records a removed tag in the store. If the store has no record
// of it, importRemoved creates and removes the tag.
func (t *Tags) importRemoved(ctx context.Context, tag store.Tag) error {
	err := t.store.RaiseRemoved(ctx, tag.Name, tag.Next)
	if !errors.Is(err, store.ErrNoTag) {
		return err
	}
	tag.Step, tag.Earliest = 1, store.NeverUsed
	if err := t.store.CreateTag(ctx, tag); err != nil {
		return err
	}
	return t.store.RemoveTag(ctx, tag.Name)
}
