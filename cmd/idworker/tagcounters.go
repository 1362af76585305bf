package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/tagging"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// tagRaiseCmd makes sure that IDs which may have been handed out are not handed out again:
// every restore of data ends with it.
type tagRaiseCmd struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`

	Tag  string `arg:"" optional:"" help:"Name of the tag, unless --all."`
	All  bool   `help:"Raise every tag."`
	Next int64  `help:"The first ID of the next segment. Workers that run use up what they have in memory before. A tag that is higher already stays." placeholder:"ID"`
	By   int64  `help:"How many IDs to skip." placeholder:"N"`

	offlineFlags `embed:""`
	printFlags   `embed:""`
}

// check says which arguments do not go together.
func (r *tagRaiseCmd) check() error {
	switch {
	case r.All == (r.Tag != ""):
		return problem.Usage(errors.New("want either a tag or --all"))
	case (r.Next > 0) == (r.By > 0):
		return problem.Usage(errors.New("want either --next ID or --by N, 1 or more"))
	case r.All && r.Next > 0:
		return problem.Usage(errors.New("--all goes with --by: every tag has a next ID of its own"))
	case r.All && r.By > tags.MaxRaiseAll:
		return problem.Usage(fmt.Errorf("--by %d is too many for all tags, allowed is 1 to %d", r.By, int64(tags.MaxRaiseAll)))
	case r.Tag != "":
		return errors.Join(messages.CheckTag(r.Tag), r.checkOffline())
	}
	return r.checkOffline()
}

// Run raises, and prints a line per tag.
func (r *tagRaiseCmd) Run(ctx context.Context, out output) error {
	if err := r.check(); err != nil {
		return err
	}
	source, err := r.backend()
	if err != nil {
		return err
	}
	if r.Data != "" {
		return r.raiseFolder(ctx, out, source, r.offlineFlags, r.By)
	}
	done := newChanges(out)
	if r.All {
		return done.End(r.withPatientJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			return tags.RaiseAll(ctx, js, r.Prefix, source, r.By, done.add)
		}))
	}
	return done.End(r.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		raise, amount := t.Raise, r.Next
		if r.By > 0 {
			raise, amount = t.RaiseBy, r.By
		}
		raised, err := raise(ctx, r.Tag, amount)
		if err == nil {
			done.add(raised)
		}
		return err
	}))
}

// tagExportCmd prints tags as tagImportCmd reads them.
type tagExportCmd struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`
	printFlags   `embed:""`
}

// Run prints a line per template and per tag. An entry that cannot be read is an error, and the list is then
// not complete.
func (e *tagExportCmd) Run(ctx context.Context, out output) error {
	source, err := e.backend()
	if err != nil {
		return err
	}
	return e.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		all, err := t.Export(ctx)
		return errors.Join(out.Print(tagging.Export(all)), err)
	})
}

// tagImportCmd brings tags of another store or installation here.
type tagImportCmd struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`

	File   string `arg:"" optional:"" help:"File that tag export wrote; standard input without." type:"existingfile"`
	Switch bool   `name:"switch-store" help:"Have the installation count in this --store from now on. No loader may run."`

	printFlags `embed:""`
}

// Run reads the whole list before it changes anything, and prints a line per tag and per template
// that it made.
func (i *tagImportCmd) Run(ctx context.Context, in input, out output) error {
	list, err := i.read(in)
	if err != nil {
		return err
	}
	source, err := i.backend()
	if err != nil {
		return err
	}
	done := newChanges(out)
	if i.Switch {
		return done.End(i.withPatientJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			return tags.SwitchStore(ctx, js, i.Prefix, source, list, done.add)
		}))
	}
	return done.End(i.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		return t.Import(ctx, list, done.add)
	}))
}

func (i *tagImportCmd) read(in io.Reader) (tags.Transfer, error) {
	if i.File == "" {
		return tags.Read(in)
	}
	file, err := os.Open(i.File)
	if err != nil {
		return tags.Transfer{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return tags.Read(file)
}
