package witness

import (
	"context"
	"errors"

	"github.com/idworker/idworker/store"
)

// RaiseAll raises every tag of a store by a number of IDs: from where it is, or from where it
// was seen if that is higher. The losses are those of a [ForgotError] about the bucket in which
// the store counts. A tag that was seen and is missing, because it was created after
// the backup, is created again with that step. A tag that has fewer IDs left is used up. What is
// remembered of removed tags is raised as well, and not returned. It returns what it did, in no particular order,
// beside the first error; raising once more does no harm.
func RaiseAll(ctx context.Context, to store.Remembering, losses []Loss, by, step int64) (raised []store.Tag, err error) {
	if by < 0 {
		return nil, errors.New("a tag cannot be lowered")
	}
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
		tag.Next = store.Beyond(max(tag.Next, seen[tag.Name]), by)
		if err := to.Raise(ctx, tag.Name, tag.Next); err != nil {
			return raised, err
		}
		delete(seen, tag.Name)
		raised = append(raised, tag)
	}
	removed, err := to.Removed(ctx)
	if err != nil {
		return raised, err
	}
	for _, tag := range removed {
		if err := to.RaiseRemoved(ctx, tag.Name, store.Beyond(max(tag.Next, seen[tag.Name]), by)); err != nil {
			return raised, err
		}
		delete(seen, tag.Name)
	}
	for name, next := range seen {
		tag := store.Tag{Name: name, Step: step, Next: store.Beyond(next, by)}
		if err := to.CreateTag(ctx, tag); err != nil {
			return raised, err
		}
		raised = append(raised, tag)
	}
	return raised, nil
}
