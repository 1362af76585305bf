// Package tags is what administrators do with tags: list, create and change them. A tag is
// in two places, the store, which counts, and the directory, which workers watch. The store
// is always written first: a directory entry without a counter behind it would make workers
// ask for what is not there, while a missing one is added by the loaders' mirror.
package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// ErrNoMatch says that nothing matches a pattern.
var ErrNoMatch = errors.New("no tag or template matches")

// ErrTemplateRemoved says of a tag why it is not answered though it is in the store.
var ErrTemplateRemoved = errors.New("it came of a template that was removed")

// ErrMaybeCreated says that the answer to a creation was lost: the tag may be there.
var ErrMaybeCreated = errors.New("the tag may have been created")

// Tags is an installation's store and directory.
type Tags struct {
	store     *backend.Store
	directory *worker.Directory

	// Orders has the rules of tags.
	Orders *Orders
}

// Open opens both. The installation has to exist, and to count in that store; the error is
// an agreement.ErrForeignStore if it counts in another one.
func Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) (*Tags, error) {
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	directory, err := worker.OpenDirectory(ctx, js, prefix, zap.NewNop())
	if err != nil {
		return nil, err
	}
	// Before a bucket or a table is missed that the installation does not need.
	if err := agreed.CheckStore(ctx, source.Name()); err != nil {
		return nil, err
	}
	return open(ctx, js, prefix, source, directory)
}

func open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, directory *worker.Directory) (*Tags, error) {
	segments, err := source.Open(ctx, backend.Options{JetStream: js, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	orders, err := openOrders(ctx, js, prefix)
	if err != nil {
		return nil, errors.Join(err, segments.Close())
	}
	return &Tags{segments, directory, orders}, nil
}

// Close closes the store.
func (t *Tags) Close() { _ = t.store.Close() } // all answers are in

// List returns all tags by name. Entries that cannot be read are named in an error that
// wraps store.ErrCorrupt, beside the tags that can.
func (t *Tags) List(ctx context.Context) ([]store.Tag, error) {
	list, err := t.store.Tags(ctx)
	slices.SortFunc(list, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
	return list, err
}

// Create adds an ordinary tag, which has passed [Check]. Errors: store.ErrTagExists,
// store.ErrBadTag, messages.ErrTag, [ErrMaybeCreated]; a store.BelowError or [BelowTemplateError].
func (t *Tags) Create(ctx context.Context, tag store.Tag) error {
	if err := t.checkFirst(ctx, tag); err != nil {
		return err
	}
	if err := t.create(ctx, tag); err != nil {
		return err
	}
	rules, err := t.Orders.Rules(ctx)
	if err != nil || rules.Lookup(tag.Name).Order != tagrules.Strict {
		return err
	}
	// Its template says otherwise, or what was left of an attempt to create it as a strict one.
	_, err = t.Orders.editor.SetOrder(ctx, tag.Name, tagrules.Trend)
	return err
}

// create adds a tag, whose order the rules say.
func (t *Tags) create(ctx context.Context, tag store.Tag) error {
	err := t.store.CreateTag(ctx, tag)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w, %w", err, ErrMaybeCreated)
	}
	if err != nil {
		return t.explainExists(ctx, tag.Name, err)
	}
	return t.directory.Put(ctx, tag.Name, tag.Step)
}

// named says of which tag it is that there is none, or is one already, and not where that was seen.
func named(err error, name string) error {
	for _, known := range []error{store.ErrNoTag, store.ErrTagExists} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %s", known, name)
		}
	}
	var below *store.BelowError
	if errors.As(err, &below) {
		return below
	}
	return err
}

// explainExists says of a tag that exists whether it came of a template.
func (t *Tags) explainExists(ctx context.Context, name string, err error) error {
	err = named(err, name)
	if !errors.Is(err, store.ErrTagExists) {
		return err
	}
	if rules, failed := t.Orders.Rules(ctx); failed == nil {
		if template := rules.Lookup(name).Template; template != nil {
			return fmt.Errorf("%w: it matches the template %s, and came into being when it was first asked for", err, template.Pattern)
		}
		if pattern, found := rules.Former(name); found && !t.isByName(ctx, name) {
			return fmt.Errorf("%w: %w, %s; to have it answered, create that again", err, ErrTemplateRemoved, pattern)
		}
	}
	return err
}

// isByName reports whether a tag is in the directory: those that came of templates are not.
func (t *Tags) isByName(ctx context.Context, name string) bool {
	steps, err := t.directory.Steps(ctx)
	_, found := steps[name]
	return found || err != nil
}

// SetStep changes the configured step of a tag; its IDs are not touched. Errors:
// store.ErrNoTag, store.ErrBadTag.
func (t *Tags) SetStep(ctx context.Context, name string, step int64) error {
	if err := t.store.SetStep(ctx, name, step); err != nil {
		return named(err, name)
	}
	return t.directory.Put(ctx, name, step)
}

// Check says what is wrong with a tag that is to be created with a step of at most maxStep.
// The error wraps messages.ErrTag or store.ErrBadTag.
func Check(tag store.Tag, maxStep int64) error {
	if err := CheckStep(tag.Name, tag.Step, maxStep); err != nil {
		return err
	}
	if err := tag.Check(); err != nil {
		return err
	}
	if _, err := store.Following(tag.Next, tag.Step); err != nil {
		return fmt.Errorf("%w: first ID %d leaves no room for a segment of %d below 2^63", store.ErrBadTag, tag.Next, tag.Step)
	}
	return nil
}

// CheckStep says what is wrong with a step for a tag. Errors as for [Check].
func CheckStep(name string, step, maxStep int64) error {
	if err := messages.CheckTag(name); err != nil {
		return err
	}
	if step < 1 || step > maxStep {
		return fmt.Errorf("%w: step %d, allowed is 1 to %d, the largest step", store.ErrBadTag, step, maxStep)
	}
	return nil
}
