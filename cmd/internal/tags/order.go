package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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

// ErrNotCreated is wrapped by the error about a tag that was to be strict, and that there is not.
var ErrNotCreated = errors.New("the tag was not created")

// NotActedError names the processes that have not acted upon a rule.
type NotActedError struct {
	Behind []ownership.Lease // of processes that are alive
	Silent []ownership.Lease // of processes that are not heard of, whatever has become of them
	Old    []string          // instances that answer requests and take no part: they are of an older version
}

func (e *NotActedError) Error() string {
	var parts []string
	for _, p := range []struct {
		what string
		list []string
	}{
		{"of an older version, which knows no order: ", e.Old},
		{"has not read the rule: ", describe(e.Behind)},
		{"not heard of, perhaps paused: ", describe(e.Silent)},
	} {
		if len(p.list) > 0 {
			parts = append(parts, p.what+strings.Join(p.list, ", "))
		}
	}
	return ErrNotActed.Error() + ": " + strings.Join(parts, "; ")
}

// describe says for people which processes have these leases.
func describe(leases []ownership.Lease) (all []string) {
	for _, l := range leases {
		all = append(all, fmt.Sprintf("%s (host %s, last heard of at %s)",
			l.Instance, cmp.Or(l.Host, "unknown"), l.Heard.UTC().Format("2006-01-02T15:04:05Z")))
	}
	return all
}

// Unwrap makes it an [ErrNotActed].
func (e *NotActedError) Unwrap() error { return ErrNotActed }

// Orders changes the order of tags.
type Orders struct {
	js     jetstream.JetStream
	prefix messages.Prefix
	editor *tagrules.Editor

	// ended are instances that are known to have ended, though nobody has ended their leases.
	ended []string

	clock clock
}

// Bounds of [Orders.AwaitAll].
const (
	actTime  = 10 * time.Second               // for processes to act upon a rule
	actLook  = 100 * time.Millisecond         // between two looks whether they have
	silence  = 2 * ownership.DefaultLeaseTime // without a renewal a process counts as silent
	newLease = ownership.DefaultLeaseTime     // for a process to replace a lease that lapsed
)

// clock is what waits. Tests replace it.
type clock struct {
	limit func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	pause func(ctx context.Context, d time.Duration)
	since func(time.Time) time.Duration
}

var systemClock = clock{context.WithTimeout, pause.For, time.Since}

func openOrders(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (*Orders, error) {
	editor, err := tagrules.OpenEditor(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	return &Orders{js: js, prefix: prefix, editor: editor, clock: systemClock}, nil
}

// Rules are the rules there are.
func (o *Orders) Rules(ctx context.Context) (*tagrules.Rules, error) { return o.editor.Read(ctx) }

// CreateStrict creates a tag that is strict from its first ID on. Errors: those of [Tags.Create], and
// [ErrNotActed] with [ErrNotCreated].
func (t *Tags) CreateStrict(ctx context.Context, tag store.Tag) error {
	if _, err := t.Find(ctx, tag.Name); err == nil {
		return t.explainExists(ctx, tag.Name, fmt.Errorf("%w: %s", store.ErrTagExists, tag.Name))
	} else if !errors.Is(err, store.ErrNoTag) {
		return err
	}
	if err := t.checkFirst(ctx, tag); err != nil {
		return err
	}
	if err := t.makeStrict(ctx, tag.Name); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrNotCreated, err), t.dropStrict(ctx, tag.Name))
	}
	err := t.create(ctx, tag)
	if err != nil && !errors.Is(err, ErrMaybeCreated) {
		return errors.Join(err, t.dropStrict(ctx, tag.Name))
	}
	if err != nil {
		return err
	}
	return t.keepStrict(ctx, tag.Name)
}

// keepStrict sees to it that a tag which was just created is strict. Somebody else who wanted to create it, and
// failed, may have dropped the rule while there was no tag, or be about to: that takes the rule as it was.
func (t *Tags) keepStrict(ctx context.Context, name string) error {
	for {
		_, done, err := t.Orders.editor.Confirm(ctx, name, math.MaxUint64)
		switch {
		case errors.Is(err, tagrules.ErrNotStrict):
			return t.makeStrict(ctx, name)
		case err != nil || done:
			return err
		}
	}
}

// dropStrict drops the rule that a tag which was not created is strict, if there is one. If there is the tag,
// somebody else has created it meanwhile, and may have been told that it is strict.
func (t *Tags) dropStrict(ctx context.Context, name string) error {
	return t.Orders.editor.DropUnused(ctx, name, func() (bool, error) {
		_, err := t.Find(ctx, name)
		if errors.Is(err, store.ErrNoTag) {
			return true, nil
		}
		return false, err
	})
}

// SetOrder changes the order of a tag. To an ordinary one that is a single write: an order that some
// still keep does no harm.
func (t *Tags) SetOrder(ctx context.Context, name string, order tagrules.Order) error {
	if _, err := t.Find(ctx, name); err != nil {
		return err
	}
	if order == tagrules.Strict {
		return t.makeStrict(ctx, name)
	}
	_, err := t.Orders.editor.SetOrder(ctx, name, order)
	return err
}

// makeStrict makes tags strict. When it returns without an error, each ID that is asked for from now on
// is higher than all that were answered before.
func (t *Tags) makeStrict(ctx context.Context, names ...string) error {
	each := func(write func(name string) (uint64, bool, error)) (last uint64, done bool, err error) {
		done = true
		for _, name := range names {
			revision, written, err := write(name)
			if err != nil {
				return 0, false, err
			}
			last, done = max(last, revision), done && written
		}
		return last, done, nil
	}
	editor := t.Orders.editor
	return t.Orders.becomeStrict(ctx, func() (uint64, error) {
		last, _, err := each(func(name string) (uint64, bool, error) {
			revision, err := editor.SetOrder(ctx, name, tagrules.Strict)
			return revision, true, err
		})
		return last, err
	}, func(acted uint64) (uint64, bool, error) {
		return each(func(name string) (uint64, bool, error) { return editor.Confirm(ctx, name, acted) })
	})
}

// becomeStrict is the way in which tags become strict, whichever rule does it: one of their own, or that of a
// template that is made, changed or removed.
//
// The rules are written twice. Once all have acted upon the first, none answers as before, but one may
// have been granted IDs, until it did, that lie above those in the owner's memory. The second has the
// owner drop them. It is written only when all have acted upon what it confirms, which somebody may
// have changed.
func (o *Orders) becomeStrict(ctx context.Context, write func() (revision uint64, err error), confirm func(acted uint64) (revision uint64, done bool, err error)) error {
	if err := o.AwaitAll(ctx, 0); err != nil { // before anything is written
		return err
	}
	revision, err := write()
	for done := false; ; {
		if err == nil {
			err = o.AwaitAll(ctx, revision)
		}
		if err != nil || done {
			return err
		}
		revision, done, err = confirm(revision)
	}
}

// dropOrder has a tag's template decide its order again. If that is a strict one, the tag becomes strict
// before, even if its own order says so: that may have broken off.
func (t *Tags) dropOrder(ctx context.Context, name string) error {
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	_, own := rules.Own(name)
	if template := rules.Lookup(name).Template; own && template != nil && template.Order == tagrules.Strict {
		if err := t.makeStrict(ctx, name); err != nil {
			return err
		}
	}
	return t.Orders.editor.DropOrder(ctx, name)
}

// AwaitAll returns when every process that answers requests has acted upon the rules up to a
// revision. The error is a [NotActedError] if some do not within actTime, and at once
// if those that are missing are not heard of, or, after newLease, if one is of an older version: neither
// is a matter of waiting.
func (o *Orders) AwaitAll(ctx context.Context, revision uint64) error {
	ctx, cancel := o.clock.limit(ctx, actTime)
	defer cancel()
	began := time.Now()
	var first, last *NotActedError // the time may end while it is looked again
	for {
		behind, err := o.findBehind(ctx, revision)
		switch {
		case err == nil && behind == nil:
			return nil
		case err == nil && (len(behind.Old) > 0 || len(behind.Behind) == 0):
			return behind
		case err == nil:
			first, last = cmp.Or(first, behind), behind
		case ctx.Err() == nil:
			return err
		case last == nil:
			return fmt.Errorf("%w: %w", ErrNotActed, err)
		}
		if o.clock.pause(ctx, actLook); ctx.Err() == nil {
			continue
		}
		if o.clock.since(began) > silence {
			last.findSilent(first)
		}
		return last
	}
}

// findSilent takes those for silent that have not been heard of since the first look, long ago. If nobody
// else runs, nobody ends their leases.
func (e *NotActedError) findSilent(first *NotActedError) {
	e.Behind = slices.DeleteFunc(e.Behind, func(l ownership.Lease) bool {
		silent := slices.ContainsFunc(first.Behind, func(before ownership.Lease) bool {
			return before.Instance == l.Instance && before.Heard.Equal(l.Heard)
		})
		if silent {
			e.Silent = append(e.Silent, l)
		}
		return silent
	})
}

// findBehind returns who has not acted upon the rules, or nil.
func (o *Orders) findBehind(ctx context.Context, revision uint64) (*NotActedError, error) {
	answering, leases, err := o.look(ctx)
	if err != nil {
		return nil, err
	}
	// A process that answers without a lease may be stopping, or lost its lease
	// while it was slow and is about to have another one.
	without := withoutLease(answering, leases)
	if len(without) > 0 {
		o.clock.pause(ctx, newLease)
		if answering, leases, err = o.look(ctx); err != nil {
			return nil, err
		}
		still := withoutLease(answering, leases)
		without = slices.DeleteFunc(without, func(instance string) bool {
			return !slices.Contains(still, instance) || leaseOf(leases, instance) != nil
		})
	}
	latest, err := o.editor.Latest(ctx) // later than what any lease says
	if err != nil {
		return nil, err
	}
	e := NotActedError{Old: without}
	for _, l := range leases {
		switch {
		case l.Gone, slices.Contains(o.ended, l.Instance):
		case l.Lost:
			e.Silent = append(e.Silent, l)
		case l.Rules < revision, revision > 0 && l.Rules > latest: // of a bucket that was put back
			e.Behind = append(e.Behind, l)
		}
	}
	if len(e.Silent)+len(e.Behind)+len(e.Old) == 0 {
		return nil, nil
	}
	return &e, nil
}

// look returns the processes that answer requests, and the leases. A process has a
// lease before it answers.
func (o *Orders) look(ctx context.Context) (answering []string, leases []ownership.Lease, err error) {
	if answering, err = worker.ListWorkers(ctx, o.js.Conn(), o.prefix); err != nil {
		return nil, nil, err
	}
	leases, err = ownership.ReadLeases(ctx, o.js, o.prefix)
	return answering, leases, err
}

// withoutLease returns the processes that answer requests and have no lease, or a
// lost one.
func withoutLease(answering []string, leases []ownership.Lease) []string {
	return slices.DeleteFunc(slices.Clone(answering), func(instance string) bool {
		return slices.ContainsFunc(leases, func(l ownership.Lease) bool { return l.Instance == instance && !l.Lost })
	})
}

func leaseOf(leases []ownership.Lease, instance string) *ownership.Lease {
	i := slices.IndexFunc(leases, func(l ownership.Lease) bool { return l.Instance == instance })
	if i < 0 {
		return nil
	}
	return &leases[i]
}

// ErrNotEnded is wrapped by the error about a process that is said to have ended, and of which that
// cannot be so.
var ErrNotEnded = errors.New("this cannot have ended")

// DeclareEnded says of processes that they have ended for certain: they are not waited for. That is
// recorded if others have ended their leases. Errors: [ErrNotEnded].
func (o *Orders) DeclareEnded(ctx context.Context, instances []string) error {
	if len(instances) == 0 {
		return nil
	}
	answering, err := worker.ListWorkers(ctx, o.js.Conn(), o.prefix)
	if err != nil {
		return err
	}
	leases, err := ownership.ReadLeases(ctx, o.js, o.prefix)
	if err != nil {
		return err
	}
	for _, instance := range instances {
		switch l := leaseOf(leases, instance); {
		case slices.Contains(answering, instance):
			return fmt.Errorf("%w: %s answers requests", ErrNotEnded, instance)
		case l == nil:
			return fmt.Errorf("%w: no process %s is known, or is waited for", ErrNotEnded, instance)
		case !l.Lost:
			o.ended = append(o.ended, instance)
		default:
			if err := ownership.DeclareEnded(ctx, o.js, o.prefix, *l); err != nil {
				return err
			}
		}
	}
	return nil
}
