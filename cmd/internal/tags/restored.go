package tags

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
)

// Restored is what a raise puts back of a backup: the tags and removed tags that
// the register lacks, with their orders. Their next IDs count for nothing but
// tags at or above the target, which were not begun by time.
type Restored struct {
	Installation string // ID

	Tags    []store.Tag // by name, a removed tag has step 0
	Taken   time.Time   // when they were listed
	Floor   int64       // lowest first ID of names without an entry
	Decided []string    // the decisions of the register, the latest last
	Latest  time.Time   // of the latest decision; zero if unknown

	Templates templates.List // those that are missing are put back, if they fit the others
	Replicas  int            // of a register that is created

	// Salvage replaces a register that cannot be opened: it saves the entries that
	// can be read before they are deleted. Nil refuses such a register.
	Salvage func(entries map[string]string) error

	// Replaced are the entries of registers that were replaced, and may not have
	// been put back.
	Replaced []map[string]string

	// Look is done first, and Prepare after Confirm, before the register is
	// changed.
	Look, Prepare func(context.Context, jetstream.JetStream) error
}

// salvage returns the entries of a register that cannot be opened, if such a
// register is to be replaced. Its tags join those of the backup. Alone, a
// register has the steps, too.
func (r *Restored) salvage(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, alone bool, k *known) (map[string]string, error) {
	if r == nil {
		return nil, nil
	}
	for _, entries := range r.Replaced {
		r.Tags = join(r.Tags, register.TagsOf(entries), alone)
	}
	if k.state.Missing {
		return nil, nil
	}
	_, bad := kv.Open(ctx, js, register.BucketName(prefix))
	switch {
	case bad != nil && !errors.Is(bad, durability.ErrUnsafe):
		return nil, bad
	case bad != nil && r.Salvage == nil:
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, bad)
	case r.Salvage == nil:
		return nil, nil
	case bad == nil && len(r.Replaced) > 0: // a run that was interrupted has replaced it
		return nil, nil
	case bad == nil:
		return nil, ErrReadable
	}
	entries, err := register.Salvage(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	r.Tags = join(r.Tags, register.TagsOf(entries), alone)
	k.state.Missing = true
	return entries, nil
}

// join adds tags to a list, both sorted by name. Of a tag in both the higher
// next ID counts, and the other order, which never changes.
func join(list, more []store.Tag, steps bool) []store.Tag {
	all := slices.Clone(list)
	for _, tag := range more {
		i, found := slices.BinarySearchFunc(list, tag, byName)
		if found {
			all[i].Next, all[i].Order = max(all[i].Next, tag.Next), tag.Order
			if steps {
				all[i].Step = tag.Step
			}
		} else {
			all = append(all, tag)
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// checkTemplates refuses a template here that promises more of its dates than
// that of the backup: names that were in use could begin at 1.
func (r *Restored) checkTemplates(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	here, err := templates.Read(ctx, js, prefix)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	for _, t := range r.Templates {
		if err == nil {
			_, _, err = here.Join(templates.List{t})
		}
		if errors.Is(err, templates.ErrOverlap) {
			err = nil // that of the backup is not put back
		}
	}
	return err
}

// putBack writes the tags that the register lacks, below the target of the
// raise that lifts them, and missing rows and templates.
func (r *Restored) putBack(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, segments *backend.Segments, raise register.OldRaise) error {
	list := slices.Clone(r.Tags)
	for i, tag := range list {
		if tag.Next >= raise.Target { // its entry will have been written just now
			list[i].Next = raise.Lift(tag, r.Taken)
		}
	}
	err := segments.PutBack(ctx, list)
	for _, t := range r.Templates {
		if t.First >= raise.Target { // as tags
			t.First = raise.Lift(store.Tag{Name: t.Pattern, Next: t.First}, r.Taken)
		}
		if err == nil {
			_, err = templates.Import(ctx, js, prefix, templates.List{t})
		}
		if errors.Is(err, templates.ErrOverlap) {
			err = nil // those that are there stay
		}
	}
	return err
}
