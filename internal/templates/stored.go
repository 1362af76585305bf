package templates

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Key holds all templates, in the bucket [agreement.BucketName].
const Key = "templates"

// Rights are those that a role needs to read the templates. The other ones that
// changing them takes, administrators have by [agreement.Rights].
func Rights(p messages.Prefix, role rights.Role) rights.Rights {
	if role == rights.Loader || role == rights.Admin {
		return rights.ReadLeader(resource.BucketStream(agreement.BucketName(p)))
	}
	return rights.Rights{}
}

// Read reads all templates from the leader: no lagging replica answers. If the
// key is missing there are none; a missing bucket is an error. Errors:
// [ErrUnreadable]; anything else means that JetStream is away.
func Read(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (List, error) {
	l, _, err := read(ctx, js, agreement.BucketName(prefix))
	return l, err
}

// Create adds a template. Errors: [ErrTemplate], [ErrPattern],
// [store.ErrBadTag], [ErrTemplateExists], [ErrOverlap], [ErrTooMany], and those
// of [Read]. After a lost answer the outcome is unknown.
func Create(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, t Template) error {
	return edit(ctx, js, prefix, func(l List) (List, error) { return l.With(t) })
}

// Change changes a template, for the tags that come into being afterwards. The
// function may be called more than once; a new pattern is ignored. Errors:
// [ErrNoTemplate], and those of [Template.Check] and [Read].
func Change(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, pattern string, change func(*Template)) error {
	return edit(ctx, js, prefix, func(l List) (List, error) { return l.change(pattern, change) })
}

// Remove removes a template. The tags that came of it stay. Errors:
// [ErrNoTemplate], and those of [Read].
func Remove(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, pattern string) error {
	return edit(ctx, js, prefix, func(l List) (List, error) {
		if _, err := l.Named(pattern); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(slices.Clone(l), func(t Template) bool { return t.Pattern == pattern }), nil
	})
}

// edit changes the list by compare-and-set.
func edit(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, change func(List) (List, error)) error {
	bucket := agreement.BucketName(prefix)
	kv, _, err := resource.OpenBucket(ctx, js, bucket)
	if err != nil {
		return err
	}
	for {
		l, revision, err := read(ctx, js, bucket)
		if err != nil {
			return err
		}
		changed, err := change(l)
		if err != nil || slices.Equal(changed, l) {
			return err
		}
		value, err := json.Marshal(changed)
		if err == nil {
			_, err = kv.Update(ctx, Key, value, revision)
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			return failed(bucket, err)
		}
	}
}

// read returns the list and the revision of its Key, 0 if that never existed.
func read(ctx context.Context, js jetstream.JetStream, bucket string) (l List, revision uint64, err error) {
	m, err := leader.Last(ctx, js, resource.BucketStream(bucket), "$KV."+bucket+"."+Key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, failed(bucket, err)
	case m.Header.Get("KV-Operation") != "": // the key was deleted by hand
		return nil, m.Sequence, nil
	}
	if l, err = Decode(m.Data); err != nil {
		return nil, 0, failed(bucket, err)
	}
	return l, m.Sequence, nil
}

func failed(bucket string, err error) error {
	return fmt.Errorf("bucket %s, key %s: %w", bucket, Key, err)
}

// Decode reads the value of [Key]. An unknown field is an error: it may change
// what a template means.
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
