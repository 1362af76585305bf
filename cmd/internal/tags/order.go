package tags

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// A tag is strict when every process that answers requests treats it as strict. Until then one of them
// may answer it from its own memory, and so out of order. So the rule is written first, and then it is
// waited for until each has acted upon it.

// ErrNotActed is wrapped by the error about processes that have not acted upon a rule.
var ErrNotActed = errors.New("not every process treats the tag as strict yet")

// NotActedError names the processes that have not acted upon a rule.
type NotActedError struct {
	Behind []string // instances that are alive
	Lost   []string // instances that are not heard of, whatever has become of them
	Old    []string // instances that answer requests and take no part: they are of an older version
}

func (e *NotActedError) Error() string {
	var parts []string
	for _, p := range []struct {
		what string
		list []string
	}{
		{"of an older version, which knows no order: ", e.Old},
		{"has not read the rule: ", e.Behind},
		{"is not heard of, and may be paused: ", e.Lost},
	} {
		if len(p.list) > 0 {
			parts = append(parts, p.what+strings.Join(p.list, ", "))
		}
	}
	return ErrNotActed.Error() + ": " + strings.Join(parts, "; ")
}

// Unwrap makes it an [ErrNotActed].
func (e *NotActedError) Unwrap() error { return ErrNotActed }

// Orders changes the order of tags.
type Orders struct {
	js     jetstream.JetStream
	prefix messages.Prefix
	editor *tagrules.Editor

	// Ended names instances that are known to have ended, and are not waited for.
	Ended []string
}

// actTime is how long processes may take to act upon a rule, and actLook how often it is looked
// whether they have.
const (
	actTime = 10 * time.Second
	actLook = 100 * time.Millisecond
)

func openOrders(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (*Orders, error) {
	editor, err := tagrules.OpenEditor(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	return &Orders{js: js, prefix: prefix, editor: editor}, nil
}

// Rules are the rules there are.
func (o *Orders) Rules(ctx context.Context) (*tagrules.Rules, error) { return o.editor.Read(ctx) }

// CreateStrict creates a tag that is strict from its first ID on. Errors: those of [Tags.Create], and
// [ErrNotActed], after which there is no tag.
func (t *Tags) CreateStrict(ctx context.Context, tag store.Tag) error {
	if _, err := t.find(ctx, tag.Name); err == nil {
		return fmt.Errorf("%w: %s", store.ErrTagExists, tag.Name)
	} else if !errors.Is(err, store.ErrNoTag) {
		return err
	}
	if err := t.Orders.AwaitAll(ctx, 0); err != nil { // before anything is written
		return err
	}
	if err := t.Orders.writeStrict(ctx, tag.Name); err != nil {
		return err
	}
	err := t.Create(ctx, tag)
	if err != nil && !errors.Is(err, ErrMaybeCreated) {
		return errors.Join(err, t.Orders.editor.DropOrder(ctx, tag.Name))
	}
	return err
}

// SetOrder changes the order of a tag. To an ordinary one that is a single write: an order that some
// still keep does no harm.
func (t *Tags) SetOrder(ctx context.Context, name string, order tagrules.Order) error {
	if _, err := t.find(ctx, name); err != nil {
		return err
	}
	if order == tagrules.Strict {
		return t.makeStrict(ctx, name)
	}
	_, err := t.Orders.editor.SetOrder(ctx, name, order)
	return err
}

// makeStrict makes tags that exist strict. When it returns without an error, each ID that is asked
// for from now on is higher than all that were answered before.
//
// The rules are written twice. Once all have acted upon the first, none answers as before, but one may
// have been granted IDs, until it did, that lie above those in the owner's memory. The second has the
// owner drop them.
func (t *Tags) makeStrict(ctx context.Context, names ...string) error {
	if err := t.Orders.AwaitAll(ctx, 0); err != nil {
		return err
	}
	if err := t.Orders.writeStrict(ctx, names...); err != nil {
		return err
	}
	return t.Orders.writeStrict(ctx, names...)
}

// writeStrict writes that tags are strict, and waits until all have acted upon it.
func (o *Orders) writeStrict(ctx context.Context, names ...string) error {
	var last uint64
	for _, name := range names {
		revision, err := o.editor.SetOrder(ctx, name, tagrules.Strict)
		if err != nil {
			return err
		}
		last = revision
	}
	return o.AwaitAll(ctx, last)
}

// AwaitAll returns when every process that answers requests has acted upon the rules up to a
// revision. The error is a [NotActedError] if some do not within actTime, and at once if one is of an
// older version, or if those that are missing are not heard of: neither is a matter of waiting.
func (o *Orders) AwaitAll(ctx context.Context, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, actTime)
	defer cancel()
	var last *NotActedError // the time may end while it is looked again
	for {
		behind, err := o.findBehind(ctx, revision)
		switch {
		case err == nil && behind == nil:
			return nil
		case err == nil && (len(behind.Old) > 0 || len(behind.Behind) == 0):
			return behind
		case err == nil:
			last = behind
		case ctx.Err() == nil:
			return err
		case last == nil:
			return fmt.Errorf("%w: %w", ErrNotActed, err)
		}
		if pause.For(ctx, actLook); ctx.Err() != nil {
			return last
		}
	}
}

// findBehind returns who has not acted upon the rules, or nil.
func (o *Orders) findBehind(ctx context.Context, revision uint64) (*NotActedError, error) {
	answering, err := worker.ListWorkers(ctx, o.js.Conn(), o.prefix)
	if err != nil {
		return nil, err
	}
	leases, err := ownership.ReadLeases(ctx, o.js, o.prefix) // later: a process has a lease before it answers
	if err != nil {
		return nil, err
	}
	var e NotActedError
	for _, l := range leases {
		switch {
		case slices.Contains(o.Ended, l.Instance):
		case l.Lost:
			e.Lost = append(e.Lost, l.Instance)
		case l.Rules < revision:
			e.Behind = append(e.Behind, l.Instance)
		}
	}
	for _, instance := range answering {
		if !slices.ContainsFunc(leases, func(l ownership.Lease) bool { return l.Instance == instance }) {
			e.Old = append(e.Old, instance)
		}
	}
	if len(e.Lost)+len(e.Behind)+len(e.Old) == 0 {
		return nil, nil
	}
	return &e, nil
}
