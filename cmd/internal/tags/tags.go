// Package tags is what administrators do with tags and templates: list, create
// and change them, and bring them to another installation or store.
package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

var (
	// ErrNoMatch says that nothing matches a pattern.
	ErrNoMatch = problem.New(problem.NotFound, "no tag or template matches")

	// ErrMaybeCreated says that the answer to a creation was lost, and the tag may be there.
	ErrMaybeCreated = problem.New(problem.MaybeCreated, "the tag may have been created")

	// ErrNotTold says that a tag was removed, but the message to the workers failed.
	ErrNotTold = problem.New(problem.NotTold, "the tag was removed, but workers could not be told, and serve what they have in memory")
)

// Tags is an installation's tags and templates.
type Tags struct {
	store  *backend.Store
	js     jetstream.JetStream
	prefix messages.Prefix
}

// Open opens the store. The installation has to exist, and to count in that
// store; the error is an agreement.ErrForeignStore if it counts in another one.
func Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) (*Tags, error) {
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	// Before a bucket or a table is missed that the installation does not need.
	if err := agreed.CheckStore(ctx, source.Name()); err != nil {
		return nil, err
	}
	return open(ctx, js, prefix, source)
}

func open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) (*Tags, error) {
	segments, err := source.Open(ctx, backend.Options{JetStream: js, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	return &Tags{segments, js, prefix}, nil
}

// Close closes the store.
func (t *Tags) Close() { _ = t.store.Close() } // all answers are in

// List returns all tags by name. Entries that cannot be read are named in an
// error that wraps store.ErrCorrupt, beside the tags that can.
func (t *Tags) List(ctx context.Context) ([]store.Tag, error) {
	list, err := t.store.Tags(ctx)
	slices.SortFunc(list, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
	return list, err
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

// Exists returns store.ErrNoTag if there is no tag of that name. One that
// cannot be read, or whose row is missing, is there.
func (t *Tags) Exists(ctx context.Context, name string) error {
	_, err := t.store.Lookup(ctx, name)
	if errors.Is(err, store.ErrCorrupt) {
		return nil
	}
	return named(err, name)
}

// Create adds a tag, which has passed [Check]. Errors: store.ErrTagExists,
// store.ErrBadTag, with store.ErrBelow and store.ErrOrder among them,
// messages.ErrTag, [ErrMaybeCreated].
func (t *Tags) Create(ctx context.Context, tag store.Tag) error {
	err := t.store.CreateTag(ctx, tag)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w, %w", err, ErrMaybeCreated)
	}
	return named(err, tag.Name)
}

// named reduces an error of the store about a tag to what concerns the tag.
func named(err error, name string) error {
	for _, known := range []error{store.ErrNoTag, store.ErrTagExists} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %s", known, name)
		}
	}
	var below *store.BelowError
	var order *store.OrderError
	switch {
	case errors.As(err, &below):
		return below
	case errors.As(err, &order):
		return order
	}
	return err
}

// SetStep changes the configured step of a tag; its IDs are not touched.
// Errors: store.ErrNoTag, store.ErrBadTag.
func (t *Tags) SetStep(ctx context.Context, name string, step int64) error {
	return named(t.store.SetStep(ctx, name, step), name)
}

// tellTimeout bounds the message to the workers.
const tellTimeout = 5 * time.Second

// Remove removes a tag from the store, and tells the workers to drop it from
// memory, as far as they can be reached. Errors: store.ErrNoTag, [ErrNotTold].
func (t *Tags) Remove(ctx context.Context, name string) error {
	err := t.store.RemoveTag(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNoTag) {
		return err
	}
	// Also if there is no such tag: an earlier removal may have broken off here.
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	failed := worker.DropTag(ctx, t.js.Conn(), t.prefix, name)
	if err == nil && failed != nil {
		return fmt.Errorf("%w: %w", ErrNotTold, failed)
	}
	return named(err, name)
}

// Check returns what is wrong with a tag that is to be created with a step of
// at most maxStep. The error wraps messages.ErrTag or store.ErrBadTag.
func Check(tag store.Tag, maxStep int64) error {
	if err := cmp.Or(messages.CheckTag(tag.Name), CheckStep(tag.Step, maxStep), tag.Check()); err != nil {
		return err
	}
	if _, err := store.Following(tag.Next, tag.Step); err != nil {
		return fmt.Errorf("%w: first ID %d leaves no room for a segment of %d below 2^63", store.ErrBadTag, tag.Next, tag.Step)
	}
	return nil
}

// CheckStep returns an error that wraps store.ErrBadTag unless the step is 1 to
// maxStep.
func CheckStep(step, maxStep int64) error {
	if step < 1 || step > maxStep {
		return fmt.Errorf("%w: step %d, allowed is 1 to %d, the largest step", store.ErrBadTag, step, maxStep)
	}
	return nil
}
