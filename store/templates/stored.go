package templates

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
)

// Key holds all templates, in the bucket [agreement.BucketName].
const Key = "templates"

// Read reads all templates from the leader, never from a lagging replica. If
// the key is missing there are none; a missing bucket is an error. Errors:
// [ErrUnreadable]; anything else means that JetStream is unreachable.
func Read(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (List, error) {
	bucket := agreement.BucketName(prefix)
	e, err := kv.Get(ctx, js, bucket, Key)
	if err != nil {
		return nil, err
	}
	return listOf(bucket, e)
}

// Create adds a template. Errors: [ErrTemplate], [ErrPattern],
// [store.ErrBadTag], [ErrTemplateExists], [ErrOverlap], [ErrTooMany], and those
// of [Read]. After a lost reply the outcome is unknown.
func Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, t Template) error {
	return edit(ctx, js, prefix, func(l List) (List, error) { return l.With(t) })
}

// Change changes a template, for tags created afterwards. It may call change
// more than once; a new pattern is ignored. Errors: [ErrNoTemplate], and those
// of [Template.Check] and [Read].
func Change(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, pattern string, change func(*Template)) error {
	return edit(ctx, js, prefix, func(l List) (List, error) { return l.change(pattern, change) })
}

// Remove removes a template. Its tags stay. Errors: [ErrNoTemplate], and those
// of [Read].
func Remove(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, pattern string) error {
	return edit(ctx, js, prefix, func(l List) (List, error) {
		if _, err := l.Named(pattern); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(slices.Clone(l), func(t Template) bool { return t.Pattern == pattern }), nil
	})
}

// Import adds the templates of a list to the stored templates in a single
// write, and returns the additions; see [List.Join]. Errors are those of
// [Create], except [ErrTemplateExists].
func Import(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, list List) (added List, err error) {
	err = edit(ctx, js, prefix, func(l List) (joined List, err error) {
		joined, added, err = l.Join(list)
		return joined, err
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// edit changes the list by compare-and-set.
func edit(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, change func(List) (List, error)) error {
	bucket, err := kv.Open(ctx, js, agreement.BucketName(prefix))
	if err != nil {
		return err
	}
	_, err = bucket.Edit(ctx, Key, func(e kv.Entry) ([]byte, error) {
		l, err := listOf(bucket.Name(), e)
		if err != nil {
			return nil, err
		}
		changed, err := change(l)
		if err != nil || slices.Equal(changed, l) {
			return nil, err
		}
		return json.Marshal(changed)
	})
	return err
}

// listOf decodes an entry. A missing entry has no templates.
func listOf(bucket string, e kv.Entry) (List, error) {
	if !e.Exists() {
		return nil, nil
	}
	l, err := Decode(e.Value)
	if err != nil {
		return nil, fmt.Errorf("bucket %s, key %s: %w", bucket, Key, err)
	}
	return l, nil
}

// Decode reads the value of [Key]. An unknown field is an error: it may change
// the meaning of a template.
func Decode(value []byte) (l List, err error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	for i := range l {
		l[i].Order = cmp.Or(l[i].Order, store.Trend)
		if err := l[i].Check(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
	return l.sorted(), nil
}
