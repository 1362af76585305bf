package witness

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/idworker/idworker/store"
)

// RaiseAll raises every tag of a store by a number of IDs: from where it is, or from where it
// was seen if that is higher. The losses are those of a [ForgotError] about the bucket in which
// the store counts. A tag that was seen and is missing, because it was created after
// the backup, is created again with that step. It returns what it did, in no particular order,
// beside the first error; raising once more does no harm.
func RaiseAll(ctx context.Context, to store.Store, losses []Loss, by, step int64) (raised []store.Tag, err error) {
	seen := make(map[string]int64)
	for _, l := range losses {
		if l.Key != "" && l.Seen > 0 {
			seen[l.Key] = l.Seen
		}
	}
	tags, err := to.Tags(ctx)
	if err != nil {
		return nil, err
	}
	for _, tag := range tags {
		if tag.Next, err = above(tag.Name, max(tag.Next, seen[tag.Name]), by); err == nil {
			err = to.Raise(ctx, tag.Name, tag.Next)
		}
		if err != nil {
			return raised, err
		}
		delete(seen, tag.Name)
		raised = append(raised, tag)
	}
	for name, next := range seen {
		tag := store.Tag{Name: name, Step: step}
		if tag.Next, err = above(name, next, by); err == nil {
			err = to.CreateTag(ctx, tag)
		}
		if err != nil {
			return raised, err
		}
		raised = append(raised, tag)
	}
	return raised, nil
}

// above adds to a counter, up to the end of the numbers.
func above(tag string, next, by int64) (int64, error) {
	if by < 0 {
		return 0, errors.New("a tag cannot be lowered")
	}
	if by > math.MaxInt64-next {
		return 0, fmt.Errorf("%s: %w", tag, store.ErrExhausted)
	}
	return next + by, nil
}
