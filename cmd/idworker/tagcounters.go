package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/recovery"
	"github.com/idworker/idworker/cmd/internal/tags"
)

// newChanges returns a list that prints the changes of tags and templates.
func newChanges(out output) *list[tags.Change] {
	return newList[tags.Change](out, "changes")
}

type tagExportCmd struct {
	tagFlags   `embed:""`
	printFlags `embed:""`
}

// Run prints a line per template and per tag, for tag import. An unreadable
// entry is an error, and the list is incomplete.
func (e *tagExportCmd) Run(ctx context.Context, out output) error {
	return e.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		list, err := t.Export(ctx)
		exported := tagExport{listOf(list), list.Floor, list.Decided, list}
		for i, tag := range list.Tags {
			exported.Tags[i].Removed = tag.Step == 0
		}
		return errors.Join(out.Print(exported), err)
	})
}

// tagExport is the output of tag export; its text is the input of tag import.
type tagExport struct {
	tagList
	Floor   int64     `json:"floor,string,omitempty"`
	Decided time.Time `json:"decided,omitzero"`
	list    tags.Listing
}

// Text implements report.
func (e tagExport) Text(w io.Writer) error { return e.list.Text(w) }

// tagImportCmd imports tags of another store or installation.
type tagImportCmd struct {
	tagFlags `embed:""`

	File   string `arg:"" optional:"" help:"Exported file (default: -, standard input)." type:"existingfile"`
	Switch bool   `name:"switch-store" help:"Switch the installation to --store; stop all loaders first."`
	DryRun bool   `help:"Print the changes and make none."`

	printFlags `embed:""`
}

// Run reads the whole list before it changes anything. It prints a line per tag
// and per created template.
func (i *tagImportCmd) Run(ctx context.Context, in input, out output) error {
	debug.SetGCPercent(frugal)
	list, err := i.read(ctx, in)
	if err != nil {
		return err
	}
	source, err := i.backend()
	if err != nil {
		return err
	}
	done := newChanges(out)
	return done.End(i.withPinned(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		at := recovery.On(js, i.Prefix, source)
		if i.Switch {
			return recovery.SwitchStore(ctx, at, list, i.DryRun, done.Add)
		}
		return recovery.Import(ctx, at, list, i.DryRun, done.Add)
	}))
}

// read reads the file, or standard input.
func (i *tagImportCmd) read(ctx context.Context, in input) (tags.Listing, error) {
	if i.File != "" && i.File != "-" {
		file, err := os.Open(i.File)
		if err != nil {
			return tags.Listing{}, err
		}
		defer func() { _ = file.Close() }() // it was only read
		return tags.Parse(file)
	}
	if progress.IsTerminal(in.Reader) {
		fmt.Fprintln(os.Stderr, "reading standard input until Ctrl-D")
	}
	return untilDone(ctx, func() (tags.Listing, error) { return tags.Parse(in) })
}
