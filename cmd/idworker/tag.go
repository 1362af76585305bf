package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

type tagCmd struct {
	Ls     tagLsCmd     `cmd:"" help:"List tags."`
	Create tagCreateCmd `cmd:"" help:"Create a tag."`
	Set    tagSetCmd    `cmd:"" help:"Change the step or the order of a tag."`
	Rm     tagRmCmd     `cmd:"" help:"Remove a tag."`
	Raise  tagRaiseCmd  `cmd:"" help:"Skip IDs of tags, so that none is handed out twice after a restore."`
	Export tagExportCmd `cmd:"" help:"Print all tags as text, for import."`
	Import tagImportCmd `cmd:"" help:"Create and raise tags from the text of an export."`
}

// withTags opens the tags of an installation, and calls use.
func (i installation) withTags(ctx context.Context, source backend.Backend, use func(context.Context, *tags.Tags) error) error {
	return i.withPatientJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		t, err := tags.Open(ctx, js, i.Prefix, source)
		if err != nil {
			return err
		}
		defer t.Close()
		return use(ctx, t)
	})
}

type tagLsCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`
}

// Run prints one tag a line, sorted by name, and marks those that cannot be served. The
// error names entries that cannot be read.
func (l *tagLsCmd) Run(ctx context.Context, out output) error {
	source, err := l.backend()
	if err != nil {
		return err
	}
	return l.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		list, err := t.List(ctx)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		rules, rulesErr := t.Orders.Rules(ctx)
		if rulesErr != nil {
			return rulesErr
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TAG\tSTEP\tNEXT\tORDER")
		for _, tag := range list {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s%s\n", printable(tag.Name), tag.Step, tag.Next, rules.Lookup(tag.Name).Order, note(tag))
		}
		return errors.Join(w.Flush(), err)
	})
}

// note says what is wrong with a tag, if anything.
func note(tag store.Tag) string {
	if err := worker.CheckTag(tag); err != nil {
		return "\tunusable: " + err.Error()
	}
	return ""
}

// printable quotes a name that is not a valid tag, because it may contain anything.
func printable(name string) string {
	if messages.CheckTag(name) != nil {
		return strconv.Quote(name)
	}
	return name
}

type tagCreateCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`

	Tag     string `arg:"" help:"Name: A-Z a-z 0-9 _ - and dots between tokens, at most 128 bytes."`
	Step    int64  `help:"IDs per segment: about what is used in ten minutes at peak." default:"1000"`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`
	First   int64  `help:"The first ID." default:"1"`

	Order     tagrules.Order `help:"trend: the IDs of each worker go up. strict: every ID is higher than all that were answered before it was asked for, whoever asks whom; one worker at a time answers." default:"trend" enum:"trend,strict"`
	endedFlag `embed:""`
}

// endedFlag says which processes are not waited for.
type endedFlag struct {
	Ended []string `help:"With --order strict: instances that have ended for certain, though they did not say so. They are not waited for." placeholder:"INSTANCE"`
}

// Run creates a tag.
func (c *tagCreateCmd) Run(ctx context.Context, out output) error {
	tag := store.Tag{Name: c.Tag, Step: c.Step, Next: c.First}
	if err := tags.Check(tag, c.MaxStep); err != nil {
		return err
	}
	source, err := c.backend()
	if err != nil {
		return err
	}
	return c.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		t.Orders.Ended = c.Ended
		create, kind := t.Create, "tag"
		if c.Order == tagrules.Strict {
			create, kind = t.CreateStrict, "strict tag"
		}
		if err := create(ctx, tag); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "created %s %s: step %d, first ID %d\n", kind, c.Tag, c.Step, c.First)
		return err
	})
}

type tagSetCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`

	Tag     string `arg:"" help:"Name of the tag."`
	Step    *int64 `help:"IDs per segment."`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`

	Order     tagrules.Order `help:"trend or strict, see tag create. To strict takes until every process knows." enum:",trend,strict" default:""`
	endedFlag `embed:""`
}

// Run changes the configured step, the order, or both; IDs are not touched.
func (s *tagSetCmd) Run(ctx context.Context, out output) error {
	if s.Step == nil && s.Order == "" {
		return explain.Usage(errors.New("nothing to change: give --step, --order or both"))
	}
	if err := s.check(); err != nil {
		return err
	}
	source, err := s.backend()
	if err != nil {
		return err
	}
	return s.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		return s.change(ctx, t, out)
	})
}

func (s *tagSetCmd) check() error {
	if s.Step == nil {
		return messages.CheckTag(s.Tag)
	}
	return tags.CheckStep(s.Tag, *s.Step, s.MaxStep)
}

// change changes what is to be changed, and says so.
func (s *tagSetCmd) change(ctx context.Context, t *tags.Tags, out output) error {
	if s.Step != nil {
		if err := t.SetStep(ctx, s.Tag, *s.Step); err != nil {
			return err
		}
		fmt.Fprintf(out, "tag %s: step %d\n", s.Tag, *s.Step)
	}
	if s.Order == "" {
		return nil
	}
	t.Orders.Ended = s.Ended
	if err := t.SetOrder(ctx, s.Tag, s.Order); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "tag %s: order %s\n", s.Tag, s.Order)
	return err
}

type tagRmCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`

	Tag string `arg:"" help:"Name of the tag."`
	Yes bool   `help:"Do not ask."`
}

// Run removes a tag, after its name was typed once more.
func (r *tagRmCmd) Run(ctx context.Context, in input, out output) error {
	if err := messages.CheckTag(r.Tag); err != nil {
		return err
	}
	source, err := r.backend()
	if err != nil {
		return err
	}
	if !r.Yes {
		fmt.Fprintf(out, "Requests for %s will fail. Type its name to remove it: ", r.Tag)
		var typed string
		if _, _ = fmt.Fscanln(in, &typed); typed != r.Tag {
			return explain.Usage(errors.New("that is not its name; nothing was removed"))
		}
	}
	return r.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		if err := t.Remove(ctx, r.Tag); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "removed tag %s\n", r.Tag)
		return err
	})
}
