// Package tags is the administration of tags and templates: list, create, change
// and raise a tag, and export them. Package recovery raises all, and imports.
package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
)

var (
	// ErrNoMatch means that nothing matches a pattern.
	ErrNoMatch = problem.New(problem.NotFound, "no tag or template matches")

	// ErrMaybeCreated means that the reply to a creation was lost, so the tag
	// may exist.
	ErrMaybeCreated = problem.New(problem.MaybeCreated, "the tag may have been created")

	// ErrNotNotified means that a tag was removed, but the message to the
	// workers failed.
	ErrNotNotified = problem.New(problem.NotTold, "the tag was removed, but workers were not notified and use up their buffers")
)

// Tags is an installation's tags and templates.
type Tags struct {
	JetStream jetstream.JetStream
	Prefix    messages.Prefix

	store *backend.Segments
}

// Open opens the store. The installation must exist and count in that store; if
// it counts in another, the error is an agreement.ErrForeignStore.
func Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) (*Tags, error) {
	t, err := open(ctx, js, prefix, source, kv.ByConsumer)
	if err != nil {
		return nil, err
	}
	if err := Hear(ctx, js, prefix, t.store.Register); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Hear has a register check what processes report. Otherwise a command that writes
// to a register that went back could lift its sequence over what they have seen, and
// loaders would take it for complete. Nobody has to answer.
func Hear(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, to *register.Register) error {
	if !natsconn.Allowed(ctx, js, worker.AskReportsRights()) {
		return nil
	}
	id, err := agreement.LookupID(ctx, js, prefix)
	if err != nil {
		return err
	}
	reports, err := worker.AskReports(ctx, js.Conn(), prefix, nil)
	for _, r := range reports {
		for _, c := range r.Claims {
			if r.Stats.Installation == id {
				to.Hear(ctx, c)
			}
		}
	}
	if errors.Is(err, worker.ErrNoReports) || errors.Is(err, worker.ErrCut) { // as far as they are known
		err = nil
	}
	return err
}

// OpenToList is [Open] for users who may read the register without creating
// consumers, such as the monitor.
func OpenToList(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) (*Tags, error) {
	lists := kv.ByConsumer
	if !natsconn.Allowed(ctx, js, register.Rights(prefix, rights.Backup)) {
		lists = kv.ByRequests
	}
	return open(ctx, js, prefix, source, lists)
}

func open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, lists kv.Way) (*Tags, error) {
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	// Checked first, or the error may be about a bucket or table that the
	// installation does not need.
	if err := agreed.CheckStore(ctx, source.Name()); err != nil {
		return nil, err
	}
	segments, err := source.Open(ctx, register.Config{JetStream: js, Prefix: prefix, Lists: lists})
	if err != nil {
		return nil, err
	}
	return &Tags{js, prefix, segments}, nil
}

// Close closes the store.
func (t *Tags) Close() { _ = t.store.Close() } // all replies have arrived

// Listing is a list of tags and templates.
type Listing struct {
	Tags      []store.Tag // by name; a removed tag has step 0
	Templates templates.List

	// Any tag that an export does not list may have issued the IDs below Floor
	// before Decided. Zero: none was lost.
	Floor   int64
	Decided time.Time
}

// List lists tags and templates: those that match a pattern or name, or by
// default all except tags that match a template. It counts the tags of each
// template, by pattern. Rows whose names are not those of tags are listed, too.
// The readable tags are listed even if an error that wraps store.ErrCorrupt names
// unreadable entries.
func (t *Tags) List(ctx context.Context, pattern string) (list Listing, made map[string]int64, err error) {
	all, err := t.Templates(ctx)
	if err != nil {
		return list, nil, err
	}
	existing, _, others, err := t.store.AllTags(ctx)
	made = make(map[string]int64)
	for _, tag := range existing {
		template := all.Find(tag.Name)
		if template != nil {
			made[template.Pattern]++
		}
		if pattern == "" && template == nil || pattern != "" && subject.Covers(pattern, tag.Name) {
			list.Tags = append(list.Tags, tag)
		}
	}
	for _, row := range others {
		if pattern == "" || subject.Covers(pattern, row.Name) {
			row.Order = store.Trend // as that of every row without an entry
			list.Tags = append(list.Tags, row)
		}
	}
	slices.SortFunc(list.Tags, byName)
	for _, template := range all {
		if pattern == "" || subject.Overlap(pattern, template.Pattern) {
			list.Templates = append(list.Templates, template)
		}
	}
	return list, made, err
}

// Usage is the use of a tag's IDs by the workers that hold it, since they do.
type Usage struct{ Granted, Issued int64 }

// Uses returns the use of the tags that workers report: their busiest. It
// returns none if the user may not list processes, or none answers.
func (t *Tags) Uses(ctx context.Context) map[string]Usage {
	if !natsconn.Allowed(ctx, t.JetStream, worker.AskReportsRights()) {
		return nil
	}
	reports, _ := worker.AskReports(ctx, t.JetStream.Conn(), t.Prefix, nil)
	id, err := agreement.LookupID(ctx, t.JetStream, t.Prefix)
	if err != nil {
		return nil
	}
	uses := make(map[string]Usage)
	for _, r := range reports {
		if r.Stats.Installation != id {
			continue
		}
		for _, s := range r.Stats.Tags {
			use := uses[s.Tag]
			uses[s.Tag] = Usage{use.Granted + s.Granted, use.Issued + s.Issued}
		}
	}
	return uses
}

func byName(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) }

// Limit returns the number at which tags end.
func (t *Tags) Limit(ctx context.Context) (int64, error) {
	if t.store.Database == nil {
		return math.MaxInt64, nil
	}
	return t.store.Database.Limit(ctx)
}

// Find returns a tag of the store. Errors: store.ErrNoTag.
func (t *Tags) Find(ctx context.Context, name string) (store.Tag, error) {
	list, _, _, err := t.store.AllTags(ctx)
	if i := slices.IndexFunc(list, func(tag store.Tag) bool { return tag.Name == name }); i >= 0 {
		return list[i], nil
	}
	if err != nil { // the tag may be the unreadable entry
		return store.Tag{}, err
	}
	return store.Tag{}, fmt.Errorf("%w: %s", store.ErrNoTag, name)
}

// Exists returns store.ErrNoTag if there is no tag of that name. A tag that is
// unreadable or whose row is missing exists.
func (t *Tags) Exists(ctx context.Context, name string) error {
	_, err := t.store.Lookup(ctx, name)
	if errors.Is(err, store.ErrCorrupt) {
		return nil
	}
	return named(err, name)
}

// Create adds a tag. Errors: store.ErrTagExists, store.ErrBadTag including
// store.ErrBelow and store.ErrOrder, messages.ErrTag, [ErrMaybeCreated].
func (t *Tags) Create(ctx context.Context, tag store.Tag) error {
	err := t.store.CreateTag(ctx, tag)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w, %w", err, ErrMaybeCreated)
	}
	return named(err, tag.Name)
}

// CreateLowest adds a tag at the lowest first ID that is allowed, and returns
// the tag. Errors: those of [Tags.Create], store.ErrBelow if no segment fits
// above that ID.
func (t *Tags) CreateLowest(ctx context.Context, tag store.Tag) (store.Tag, error) {
	for tag.Next = 1; ; {
		err := t.Create(ctx, tag)
		var below *store.BelowError
		if !errors.As(err, &below) {
			return tag, err
		}
		if _, full := store.Following(below.Floor, tag.Step); full != nil {
			return tag, err
		}
		tag.Next = below.Floor
	}
}

var errUnfinished = problem.New(problem.MustRaise, "a restore may be unfinished, so no name counts as unused")

// CheckUnused returns an error if the register is being raised, or a process
// reports that it regressed. heard is false if processes may be connected, but
// none reported. A user without the right of worker.AskReportsRights is denied.
func (t *Tags) CheckUnused(ctx context.Context) (heard bool, err error) {
	if err := t.store.Stopped(); err != nil {
		return true, fmt.Errorf("%w: %w", errUnfinished, err)
	}
	reports, err := worker.AskReports(ctx, t.JetStream.Conn(), t.Prefix, nil)
	for _, r := range reports {
		if r.Stopped != "" {
			return true, fmt.Errorf("%w: process %s on %s: %s", errUnfinished, r.Instance, r.Host, r.Stopped)
		}
	}
	return err == nil, ctx.Err()
}

// named reduces a store's error to the part about the tag.
func named(err error, name string) error {
	var below *store.BelowError
	var order *store.OrderError
	switch {
	case errors.Is(err, store.ErrNoTag):
		return fmt.Errorf("%w: %s", store.ErrNoTag, name)
	case errors.Is(err, store.ErrTagExists):
		return fmt.Errorf("%w: %s", store.ErrTagExists, name)
	case errors.As(err, &below):
		return below
	case errors.As(err, &order):
		return order
	}
	return err
}

// SetStep changes the configured step of a tag, not its IDs. Errors:
// store.ErrNoTag, store.ErrBadTag.
func (t *Tags) SetStep(ctx context.Context, name string, step int64) error {
	return named(t.store.SetStep(ctx, name, step), name)
}

// Raise skips IDs of a tag: the next by, or if by is 0 all below next, unless
// the tag is higher already. Errors: store.ErrNoTag; store.ErrExhausted if
// fewer than by are left; store.ErrBadTag if no segment fits above next.
func (t *Tags) Raise(ctx context.Context, name string, next, by int64) (Change, error) {
	tag, err := t.Find(ctx, name)
	if err != nil {
		return Change{}, err
	}
	left := math.MaxInt64 - tag.Next
	if by > left {
		return Change{}, fmt.Errorf("%w: tag %s: cannot add %d to %d, at most %d", store.ErrExhausted, name, by, tag.Next, left)
	}
	if by > 0 {
		next = tag.Next + by
	} else if _, err := store.Following(next, tag.Step); err != nil && next > tag.Next {
		return Change{}, fmt.Errorf("%w: tag %s: next ID %d leaves no room for a segment of %d below 2^63", store.ErrBadTag, name, next, tag.Step)
	}
	return t.raise(ctx, tag, next)
}

func (t *Tags) raise(ctx context.Context, tag store.Tag, next int64) (Change, error) {
	err := t.store.Raise(ctx, tag.Name, next)
	return Change{Tag: tag.Name, Before: tag.Next, Next: max(tag.Next, next)}, err
}

// notifyTimeout bounds the message to the workers.
const notifyTimeout = 5 * time.Second

// Remove removes a tag from the store, and sends the workers a message to drop
// its buffers. Errors: store.ErrNoTag, [ErrNotNotified].
func (t *Tags) Remove(ctx context.Context, name string) error {
	err := t.store.RemoveTag(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNoTag) {
		return err
	}
	// Sent even if there is no such tag: an earlier removal may have failed
	// here.
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	failed := worker.DropTag(ctx, t.JetStream.Conn(), t.Prefix, name)
	if err == nil && failed != nil {
		return fmt.Errorf("%w: %w", ErrNotNotified, failed)
	}
	return named(err, name)
}

// Lowest returns the lowest first ID of a tag that may have been lost.
func (t *Tags) Lowest() int64 { return t.store.Lowest() }

// Templates returns the templates. Their first IDs are at least [Tags.Lowest].
func (t *Tags) Templates(ctx context.Context) (templates.List, error) {
	list, err := templates.Read(ctx, t.JetStream, t.Prefix)
	for i := range list { // a copy
		list[i].First = max(list[i].FirstID(), t.Lowest())
	}
	return list, err
}

// CreateTemplate adds a template. Errors: store.ErrSetup if a database cannot
// take tags of any name, and those of templates.Create.
func (t *Tags) CreateTemplate(ctx context.Context, template templates.Template) error {
	if err := cmp.Or(template.Check(), t.store.CheckFirst(ctx)); err != nil {
		return err
	}
	return templates.Create(ctx, t.JetStream, t.Prefix, template)
}
