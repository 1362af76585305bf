package tagrules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/resource"
	"github.com/idworker/idworker/messages"
)

// Editor changes the rules. Each change returns its revision, for whoever waits until all have acted
// upon it, see [Watcher.Revision]. It is that of the rule as it is if there was nothing to change.
type Editor struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	bucket string
	prefix messages.Prefix
}

// OpenEditor opens the rules of an installation, which has to exist.
func OpenEditor(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (*Editor, error) {
	bucket := agreement.BucketName(prefix)
	kv, _, err := resource.OpenBucket(ctx, js, bucket)
	if err != nil {
		return nil, err
	}
	return &Editor{js, kv, bucket, prefix}, nil
}

// Read reads all rules, as they were when it was called or later.
func (e *Editor) Read(ctx context.Context) (*Rules, error) {
	w := NewWatcher(e.js, e.prefix, zap.NewNop())
	if err := w.Start(ctx); err != nil {
		return nil, err
	}
	w.Close()
	return w.Rules, nil
}

// Latest is the revision of the latest rule there is. Who has acted on a later one has read other rules: the
// bucket was put back to an older state since.
func (e *Editor) Latest(ctx context.Context) (uint64, error) {
	return latestRevision(ctx, e.js, e.prefix)
}

// SetOrder sets the order of one tag, whatever its template says.
func (e *Editor) SetOrder(ctx context.Context, tag string, order Order) (revision uint64, err error) {
	if err := errors.Join(messages.CheckTag(tag), order.Check()); err != nil {
		return 0, err
	}
	revision, err = e.kv.Put(ctx, orderKey(tag), []byte(order))
	return revision, e.failed(orderKey(tag), err)
}

// DropOrder has the tag's template decide again, or nobody.
func (e *Editor) DropOrder(ctx context.Context, tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return err
	}
	m, err := e.read(ctx, orderKey(tag))
	if err != nil || m.value == nil {
		return err
	}
	return e.failed(orderKey(tag), e.kv.Delete(ctx, orderKey(tag)))
}

// DropUnused drops the rule that a tag is strict, if there is one and the tag is found not to be there. Whoever writes
// that rule after it was looked at here, or confirms it, keeps it.
func (e *Editor) DropUnused(ctx context.Context, tag string, unused func() (bool, error)) error {
	have, err := e.read(ctx, orderKey(tag))
	if err != nil || Order(have.value) != Strict {
		return err
	}
	if yes, err := unused(); err != nil || !yes {
		return err
	}
	err = e.kv.Delete(ctx, orderKey(tag), jetstream.LastRevision(have.revision))
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return nil
	}
	return e.failed(orderKey(tag), err)
}

// CreateTemplate adds a template, which may be one that was removed elsewhere. That there are no tags yet
// that it is for is the caller's to look at, and so is [Editor.Settle] if it is strict. Errors: [ErrTemplate],
// [ErrPattern], [ErrOrder], [ErrTemplateExists], [ErrOverlap], [ErrTooMany].
func (e *Editor) CreateTemplate(ctx context.Context, t Template) (revision uint64, err error) {
	return e.edit(ctx, func(all templates) (templates, error) { return all.add(t) })
}

// ChangeTemplate changes a template. If it becomes strict, [Editor.Settle] is the caller's. Errors:
// [ErrNoTemplate], and those of [Template.Check].
func (e *Editor) ChangeTemplate(ctx context.Context, pattern string, change func(*Template)) (revision uint64, err error) {
	return e.edit(ctx, func(all templates) (templates, error) { return all.change(pattern, change) })
}

// RemoveTemplate removes a template. What came of it stays in the store, for a template that is made
// again. It is not asked for any more, unless a less specific template counts for it now: if that is
// strict, and this one was not, [Editor.Settle] is the caller's. Errors: [ErrNoTemplate].
func (e *Editor) RemoveTemplate(ctx context.Context, pattern string) (revision uint64, err error) {
	return e.ChangeTemplate(ctx, pattern, func(t *Template) { t.Removed = true })
}

// Tags become strict by two writes. Until all have acted upon the first, somebody may be granted IDs that
// lie above those in the owner's memory; the second one, by Confirm or Settle, has the owner drop these. Both
// write only if what they confirm is not later than the revision that all have acted upon. If it is, they
// return its revision, and are to be called again when all have acted upon that.

// ErrNotStrict says that somebody has changed an order meanwhile.
var ErrNotStrict = errors.New("the order was changed meanwhile, it is not strict")

// Confirm writes once more that a tag is strict. Errors: [ErrNotStrict].
func (e *Editor) Confirm(ctx context.Context, tag string, acted uint64) (revision uint64, done bool, err error) {
	have, err := e.read(ctx, orderKey(tag))
	switch {
	case err != nil:
		return 0, false, err
	case Order(have.value) != Strict:
		return 0, false, e.failed(orderKey(tag), ErrNotStrict)
	case have.revision > acted:
		return have.revision, false, nil
	}
	revision, err = e.kv.Update(ctx, orderKey(tag), have.value, have.revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return acted, false, nil
	}
	return revision, true, e.failed(orderKey(tag), err)
}

// Settle ends that tags are becoming strict with a template.
func (e *Editor) Settle(ctx context.Context, acted uint64) (revision uint64, done bool, err error) {
	have, err := e.read(ctx, templatesKey)
	if err != nil || have.revision > acted {
		return have.revision, false, err
	}
	revision, err = e.write(ctx, have, func(all templates) (templates, error) { return all.settle(), nil })
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return acted, false, nil
	}
	return revision, true, err
}

// RaiseFirst raises the first ID of templates, those that were removed among them: each to what next says of
// it, unless that is lower. It returns all as they were, and as they are.
func (e *Editor) RaiseFirst(ctx context.Context, next func(Template) int64) (before, now []Template, err error) {
	_, err = e.edit(ctx, func(all templates) (templates, error) {
		before, now = all, slices.Clone(all)
		for i := range now {
			if first := next(now[i]); first > now[i].FirstID() {
				now[i].First = first
			}
		}
		return now, nil
	})
	return before, now, err
}

// edit writes the templates, on the condition that nobody else has meanwhile.
func (e *Editor) edit(ctx context.Context, change func(templates) (templates, error)) (revision uint64, err error) {
	for {
		have, err := e.read(ctx, templatesKey)
		if err != nil {
			return 0, err
		}
		revision, err = e.write(ctx, have, change)
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return revision, err
		}
	}
}

func (e *Editor) write(ctx context.Context, have stored, change func(templates) (templates, error)) (revision uint64, err error) {
	var all templates
	if have.value != nil {
		if all, err = decodeTemplates(have.value); err != nil {
			return 0, e.failed(templatesKey, err)
		}
	}
	changed, err := change(all)
	if err != nil || slices.Equal(changed, all) {
		return have.revision, err
	}
	revision, err = e.kv.Update(ctx, templatesKey, changed.encode(), have.revision)
	return revision, e.failed(templatesKey, err)
}

// stored is the value of a key, nil if there is none, and its revision.
type stored struct {
	value    []byte
	revision uint64
}

// read reads a key where it is written.
func (e *Editor) read(ctx context.Context, key string) (stored, error) {
	m, err := leader.Last(ctx, e.js, resource.BucketStream(e.bucket), "$KV."+e.bucket+"."+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return stored{}, nil
	case err != nil:
		return stored{}, e.failed(key, err)
	case m.Header.Get("KV-Operation") != "":
		return stored{nil, m.Sequence}, nil
	}
	return stored{m.Data, m.Sequence}, nil
}

// failed says in which bucket and at which key err happened.
func (e *Editor) failed(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bucket %s, key %s: %w", e.bucket, key, err)
}
