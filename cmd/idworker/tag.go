package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

type tagCmd struct {
	Ls     tagLsCmd     `cmd:"" help:"List tags."`
	Create tagCreateCmd `cmd:"" help:"Create a tag."`
	Set    tagSetCmd    `cmd:"" help:"Change the step of a tag."`
}

// tags is what the tag commands work on: the store, and the directory that workers
// watch.
type tags struct {
	store     store.Store
	directory *worker.Directory
}

// withTags opens both and calls use.
func (i installation) withTags(ctx context.Context, source backend.Backend, use func(context.Context, tags) error) error {
	return i.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		agreed, err := agreement.Open(ctx, js, i.Prefix)
		if err != nil {
			return err
		}
		directory, err := worker.OpenDirectory(ctx, js, i.Prefix, zap.NewNop())
		if err != nil {
			return err
		}
		// Before a bucket or a table is missed that the installation does not need.
		if err := agreed.CheckStore(ctx, source.Name()); err != nil {
			return err
		}
		segments, err := source.Open(ctx, js, i.Prefix)
		if err != nil {
			return err
		}
		defer func() { _ = segments.Close() }() // all answers are in
		return use(ctx, tags{segments, directory})
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
	return l.withTags(ctx, source, func(ctx context.Context, t tags) error {
		list, err := t.store.Tags(ctx)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		slices.SortFunc(list, func(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) })
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TAG\tSTEP\tNEXT")
		for _, tag := range list {
			fmt.Fprintf(w, "%s\t%d\t%d%s\n", printable(tag.Name), tag.Step, tag.Next, note(tag))
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

// checkStep checks what the commands that set a step have in common.
func checkStep(tag string, step, maxStep int64) error {
	if err := messages.CheckTag(tag); err != nil {
		return err
	}
	if step < 1 || step > maxStep {
		return fmt.Errorf("%w: step %d, allowed is 1 to %d (--max-step)", store.ErrBadTag, step, maxStep)
	}
	return nil
}

type tagCreateCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`

	Tag     string `arg:"" help:"Name: A-Z a-z 0-9 _ - and dots between tokens, at most 128 bytes."`
	Step    int64  `help:"IDs per segment: about what is used in ten minutes at peak." default:"1000"`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`
	First   int64  `help:"The first ID." default:"1"`
}

// Run writes the store first: a directory entry without a counter behind it would
// make workers ask for what is not there.
func (c *tagCreateCmd) Run(ctx context.Context, out output) error {
	if err := checkStep(c.Tag, c.Step, c.MaxStep); err != nil {
		return err
	}
	if err := (store.Tag{Name: c.Tag, Step: c.Step, Next: c.First}).Check(); err != nil {
		return err
	}
	if _, err := store.Following(c.First, c.Step); err != nil {
		return fmt.Errorf("%w: first ID %d leaves no room for a segment of %d below 2^63", store.ErrBadTag, c.First, c.Step)
	}
	source, err := c.backend()
	if err != nil {
		return err
	}
	return c.withTags(ctx, source, func(ctx context.Context, t tags) error {
		err := t.store.CreateTag(ctx, store.Tag{Name: c.Tag, Step: c.Step, Next: c.First})
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w; the tag may have been created all the same: see idworker tag ls", err)
		}
		if err != nil {
			return err
		}
		if err := t.directory.Put(ctx, c.Tag, c.Step); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "created tag %s: step %d, first ID %d\n", c.Tag, c.Step, c.First)
		return err
	})
}

type tagSetCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`

	Tag     string `arg:"" help:"Name of the tag."`
	Step    int64  `help:"IDs per segment." required:""`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`
}

// Run changes the configured step; IDs are not touched.
func (s *tagSetCmd) Run(ctx context.Context, out output) error {
	if err := checkStep(s.Tag, s.Step, s.MaxStep); err != nil {
		return err
	}
	source, err := s.backend()
	if err != nil {
		return err
	}
	return s.withTags(ctx, source, func(ctx context.Context, t tags) error {
		if err := t.store.SetStep(ctx, s.Tag, s.Step); err != nil {
			return err
		}
		if err := t.directory.Put(ctx, s.Tag, s.Step); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "tag %s: step %d\n", s.Tag, s.Step)
		return err
	})
}
