package tags

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Raised says what became of one tag.
type Raised struct {
	Tag         string
	Before, Now int64 // the first ID that was not handed out, and that now
	Removed     bool  // there is no such tag any more; one that is created again begins there

	Template bool        // Tag is the pattern of a template that was made
	Order    store.Order // that was imported, else ""
}

// Raise makes next the first ID of the tag that is not handed out, unless it is
// higher already. Errors: store.ErrNoTag, store.ErrBadTag, that also if no
// segment fits above.
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

// RaiseBy skips the next n IDs of the tag. Errors: store.ErrNoTag,
// store.ErrExhausted.
func (t *Tags) RaiseBy(ctx context.Context, name string, n int64) (Raised, error) {
	tag, err := t.Find(ctx, name)
	if err != nil {
		return Raised{}, err
	}
	return t.raiseBy(ctx, tag, n)
}

// MaxRaiseAll bounds by how much all tags may be raised at once: a slip of the
// keyboard shall not use up tags that are not half used.
const MaxRaiseAll = 1 << 62

// RaiseAll skips the next n IDs of every tag, 1 to [MaxRaiseAll], and of every
// removed one, and reports each; see [register.Store.RaiseAll]. It is the end
// of each restore: loaders that had stopped go on. A register that is missing
// is created.
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

// checkStore makes sure that an installation, if there is one, counts in a
// store. It returns how many copies its buckets have.
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
