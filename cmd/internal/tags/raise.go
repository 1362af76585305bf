package tags

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// Raised says what became of one tag.
type Raised struct {
	Tag         string
	Before, Now int64 // the first ID that was not handed out, and that now
	Removed     bool  // there is no such tag any more; one that is created again begins there

	Template bool           // it is a pattern: of a template that was made, or, if Before is not 0, of one whose new tags begin with Now
	Order    tagrules.Order // what was imported with it, "" for none
}

// Raise makes next the first ID of the tag that is not handed out, unless it is higher
// already. Errors: store.ErrNoTag, store.ErrBadTag, that also if no segment fits above.
func (t *Tags) Raise(ctx context.Context, name string, next int64) (Raised, error) {
	tag, err := t.Find(ctx, name)
	if err != nil {
		return Raised{}, err
	}
	if _, err := store.Following(next, tag.Step); err != nil && next > tag.Next {
		return Raised{}, fmt.Errorf("%w: tag %s: next ID %d leaves no room for a segment of %d below 2^63", store.ErrBadTag, name, next, tag.Step)
	}
	return t.raise(ctx, tag, next)
}

// RaiseBy skips the next n IDs of the tag. Errors: store.ErrNoTag, store.ErrExhausted.
func (t *Tags) RaiseBy(ctx context.Context, name string, n int64) (Raised, error) {
	tag, err := t.Find(ctx, name)
	if err != nil {
		return Raised{}, err
	}
	return t.raiseBy(ctx, tag, n)
}

// MaxRaiseAll bounds by how much all tags may be raised at once: a slip of the keyboard shall not
// use up tags that are not half used.
const MaxRaiseAll = 1 << 62

// RaiseAllBy skips the next n IDs of every tag, 1 to [MaxRaiseAll], and of every removed one, and of those
// that templates will make, and reports each. A tag that has fewer left is used up. It goes on after an error. Entries that
// cannot be read are in the error, too: nobody knows how far they were handed out. Before anything is changed:
// [ErrLoadersMake].
func (t *Tags) RaiseAllBy(ctx context.Context, n int64, report func(Raised)) error {
	if err := t.mayAccept(ctx); err != nil {
		return err
	}
	list, err := t.List(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	failed := []error{err, t.raiseTemplatesBy(ctx, n, report)}
	for _, tag := range list {
		raised, err := t.raise(ctx, tag, store.Beyond(tag.Next, n))
		if err != nil {
			failed = append(failed, err)
			continue
		}
		report(raised)
	}
	removed, err := t.store.Removed(ctx)
	failed = append(failed, err)
	for _, tag := range removed {
		next := store.Beyond(tag.Next, n)
		if err := t.store.RaiseRemoved(ctx, tag.Name, next); err != nil {
			failed = append(failed, err)
			continue
		}
		report(Raised{Tag: tag.Name, Before: tag.Next, Now: next, Removed: true})
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return t.accept(ctx)
}

// accept has templates make tags in the store as it is.
func (t *Tags) accept(ctx context.Context) error {
	if err := t.mayAccept(ctx); err != nil {
		return err
	}
	return t.store.Accept(ctx)
}

// ErrLoadersMake says that the store was made again, and that loaders run. Templates make no tags until it was
// decided from where on; a loader that has not read yet what was decided would make some that begin too low.
var ErrLoadersMake = errors.New("the store was made again, and loaders are running, which could make tags that begin too low")

// mayAccept makes sure that no loader runs if templates do not make tags yet.
func (t *Tags) mayAccept(ctx context.Context) error {
	if err := t.store.CheckSame(ctx); !errors.Is(err, store.ErrUncertain) {
		return err
	}
	err := checkNoLoader(ctx, t.Orders.js, t.Orders.prefix)
	if errors.Is(err, ErrLoadersRun) {
		err = ErrLoadersMake
	}
	return err
}

// raiseTemplatesBy has the tags that templates will make begin n IDs later. What a template made after a
// backup is not in it, and is taken for new after a restore.
func (t *Tags) raiseTemplatesBy(ctx context.Context, n int64, report func(Raised)) error {
	before, now, err := t.Orders.editor.RaiseFirst(ctx, func(template tagrules.Template) int64 {
		return store.Beyond(template.FirstID(), n)
	})
	if err != nil {
		return err
	}
	for i, template := range now {
		report(Raised{Tag: template.Pattern, Before: before[i].FirstID(), Now: template.FirstID(), Template: true, Removed: template.Removed})
	}
	return nil
}

func (t *Tags) raiseBy(ctx context.Context, tag store.Tag, n int64) (Raised, error) {
	if n < 1 || n > math.MaxInt64-tag.Next {
		return Raised{}, fmt.Errorf("%w: tag %s: %d more than %d, allowed is 1 to %d more", store.ErrExhausted, tag.Name, n, tag.Next, math.MaxInt64-tag.Next)
	}
	return t.raise(ctx, tag, tag.Next+n)
}

func (t *Tags) raise(ctx context.Context, tag store.Tag, next int64) (Raised, error) {
	if err := t.store.Raise(ctx, tag.Name, next); err != nil {
		return Raised{}, err
	}
	return Raised{Tag: tag.Name, Before: tag.Next, Now: max(tag.Next, next)}, nil
}

// Find returns a tag as the store has it. Errors: store.ErrNoTag.
func (t *Tags) Find(ctx context.Context, name string) (store.Tag, error) {
	list, err := t.List(ctx)
	for _, tag := range list {
		if tag.Name == name {
			return tag, nil
		}
	}
	if err != nil { // it may be the one that cannot be read
		return store.Tag{}, err
	}
	return store.Tag{}, fmt.Errorf("%w: %s", store.ErrNoTag, name)
}

// Remove removes a tag from the store, and then from the directory. Errors: store.ErrNoTag.
func (t *Tags) Remove(ctx context.Context, name string) error {
	err := t.store.RemoveTag(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNoTag) {
		return err
	}
	// A removal that broke off between the two is completed.
	return errors.Join(named(err, name), t.directory.Remove(ctx, name), t.dropOrder(ctx, name))
}
