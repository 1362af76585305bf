package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
)

// newChanges returns a list that prints the changes of tags and templates.
func newChanges(out output) *list[tags.Change] {
	return newList[tags.Change](out, "changes")
}

// tagRaiseCmd makes sure that IDs which may have been handed out are not handed
// out again: every restore of data ends with it.
type tagRaiseCmd struct {
	tagFlags `embed:""`

	Tag  string `arg:"" optional:"" help:"Name of the tag, unless --all."`
	All  bool   `help:"Raise every tag."`
	Next int64  `help:"The first ID of the next segment. Workers that run use up what they have in memory before. A tag that is higher already stays." placeholder:"ID"`
	By   int64  `help:"How many IDs to skip." placeholder:"N"`

	offlineFlags `embed:""`
	printFlags   `embed:""`
}

// check refuses arguments that do not go together.
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
			return tags.RaiseAll(ctx, js, r.Prefix, source, r.By, done.Add)
		}))
	}
	return done.End(r.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		change, err := t.Raise(ctx, r.Tag, r.Next, r.By)
		if err == nil {
			done.Add(change)
		}
		return err
	}))
}

type tagExportCmd struct {
	tagFlags   `embed:""`
	printFlags `embed:""`
}

// Run prints a line per template and per tag, as tag import reads them. An entry
// that cannot be read is an error, and the list is then not complete.
func (e *tagExportCmd) Run(ctx context.Context, out output) error {
	return e.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		list, err := t.Export(ctx)
		exported := tagExport{listOf(list), list}
		for i, tag := range list.Tags {
			exported.Tags[i].Removed = tag.Step == 0
		}
		return errors.Join(out.Print(exported), err)
	})
}

// tagExport is what tag export prints: as text what tag import reads.
type tagExport struct {
	tagList
	list tags.List
}

// Text is part of report.
func (e tagExport) Text(w io.Writer) error { return e.list.Text(w) }

// tagImportCmd brings tags of another store or installation here.
type tagImportCmd struct {
	tagFlags `embed:""`

	File   string `arg:"" optional:"" help:"File that tag export wrote; standard input without, or with -." type:"existingfile"`
	Switch bool   `name:"switch-store" help:"Have the installation count in this --store from now on. No loader may run."`

	printFlags `embed:""`
}

// Run reads the whole list before it changes anything, and prints a line per tag
// and per template that it made.
func (i *tagImportCmd) Run(ctx context.Context, in input, out output) error {
	text, err := i.read(ctx, in)
	if err != nil {
		return err
	}
	list, err := tags.Parse(text)
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
			return tags.SwitchStore(ctx, js, i.Prefix, source, list, done.Add)
		}))
	}
	return done.End(i.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		return t.Import(ctx, list, done.Add)
	}))
}

// read reads the file, or standard input.
func (i *tagImportCmd) read(ctx context.Context, in input) (string, error) {
	if i.File != "" && i.File != "-" {
		data, err := os.ReadFile(i.File)
		return string(data), err
	}
	if progress.IsTerminal(in.Reader) {
		fmt.Fprintln(os.Stderr, "reading from standard input, up to Ctrl-D")
	}
	data, err := untilDone(ctx, func() ([]byte, error) { return io.ReadAll(in) })
	return string(data), err
}
