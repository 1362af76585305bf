package tags

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
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

// RaiseAll skips the next n IDs of every tag, 1 to [MaxRaiseAll], and of every removed one,
// and reports each; see [register.Store.RaiseAll]. It is the end of each restore: loaders
// that had stopped go on. A register that is missing is created.
func RaiseAll(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, n int64, report func(Raised)) error {
	replicas, err := checkStore(ctx, js, prefix, source)
	if err != nil {
		return err
	}
	segments, err := source.Decide(ctx, backend.Options{JetStream: js, Prefix: prefix}, replicas)
	if err != nil {
		return err
	}
	defer func() { _ = segments.Close() }() // all answers are in
	return segments.RaiseAll(ctx, n, func(tag store.Tag, before int64) {
		report(Raised{Tag: tag.Name, Before: before, Now: tag.Next, Removed: tag.Step == 0})
	})
}

// Lowest is the lowest first ID of a tag that is created.
func (t *Tags) Lowest() int64 { return t.store.Lowest() }

// checkStore makes sure that an installation, if there is one, counts in a store. It returns
// how many copies its buckets have.
func checkStore(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) (replicas int, err error) {
	agreed, err := agreement.Open(ctx, js, prefix)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	return agreed.Replicas(), agreed.CheckStore(ctx, source.Name())
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
