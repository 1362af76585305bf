package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backup"
	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
)

// backupCmd saves what a restore needs.
type backupCmd struct {
	tagFlags `embed:""`

	Dir string `arg:"" name:"dir" help:"New folder." type:"path"`

	printFlags `embed:""`
}

// Run writes the folder whole, or not at all. Tags that cannot be read are
// missing from it, and are an error.
func (b *backupCmd) Run(ctx context.Context, out output) error {
	source, err := b.backend()
	if err != nil {
		return err
	}
	debug.SetGCPercent(frugal)
	return b.withPinned(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		taken, lacks := backup.Take(ctx, js, b.Prefix, source, version)
		if lacks != nil && !errors.Is(lacks, store.ErrCorrupt) {
			return lacks
		}
		if err := taken.Write(b.Dir); err != nil {
			return err
		}
		if lacks != nil {
			lacks = fmt.Errorf("the backup lacks tags: %w", lacks)
		}
		text := "backup of " + describe(taken) + " in " + b.Dir
		if ahead := taken.List.Decided.Sub(taken.Taken).Round(time.Second); ahead > tags.MaxClockDiff {
			text += fmt.Sprintf("; its latest decision is of %s UTC, %v ahead of the clock", taken.List.Decided.UTC().Format(time.DateTime), ahead)
		}
		if taken.Unread != "" {
			text += "; without bucket " + taken.Unread + ", which this user may not read"
		}
		return errors.Join(out.Print(backupReport{sentence(text), b.Dir, taken.Installation, taken.Taken}), lacks)
	})
}

// backupReport describes a backup.
type backupReport struct {
	sentence
	Dir          string    `json:"dir"`
	Installation string    `json:"installation"`
	Taken        time.Time `json:"taken"`
}

// describe describes the contents of a backup.
func describe(b backup.Backup) string {
	existing := 0
	for _, tag := range b.List.Tags {
		if tag.Step > 0 {
			existing++
		}
	}
	parts := []string{countOf(tags.Plan{Tags: existing, Removed: len(b.List.Tags) - existing})}
	if n := len(b.List.Templates); n > 0 {
		parts = append(parts, format.Of(int64(n), "template"))
	}
	if n := len(b.Enrichments); n > 0 {
		parts = append(parts, format.Of(int64(n), "enrichment"))
	}
	return "installation " + b.Installation + ": " + strings.Join(parts, ", ")
}

// restoreCmd puts a backup back.
type restoreCmd struct {
	tagFlags      `embed:""`
	resourceFlags `embed:""`

	Dir string `arg:"" name:"dir" help:"Folder of the backup." type:"existingdir"`

	ReplaceInstallation string `help:"Take the place of this installation, made while the data was lost." placeholder:"ID"`

	Replace bool `help:"Replace a register that cannot be opened, and save its entries beside the backup."`

	RaiseAnyway bool `help:"Raise all tags even if nothing is missing, as after data was put back by other means."`

	Yes     bool `help:"Skip the prompt."`
	DryRun  bool `help:"Print the changes and make none."`
	Verbose bool `help:"Print a line per tag."`

	dataFlags  `embed:""`
	printFlags `embed:""`
}

// Run shows what is missing, prompts, and puts it back. It ends like a raise.
func (r *restoreCmd) Run(ctx context.Context, in input, out output) error {
	if err := cmp.Or(r.checkData(r.named()), r.checkPin(), r.check(r.Prefix)); err != nil {
		return err
	}
	source, err := r.backend()
	if err != nil {
		return err
	}
	debug.SetGCPercent(frugal)
	from, err := backup.Read(r.Dir)
	if err != nil {
		return err
	}
	if r.Installation != "" && r.Installation != from.Installation {
		return &agreement.PinError{Prefix: r.Prefix, Pinned: r.Installation, Found: from.Installation}
	}
	done := newRaised(out, r.Verbose)
	restoring := backup.Restoring{
		Backup: from, Replace: r.ReplaceInstallation, Replicas: r.Replicas, Built: built(),
		Resources: func(replicas int) []kv.Resource {
			return resourceFlags{replicas, r.LeaseTTL}.resources(r.Prefix, partAll)
		},
		Confirm: func(p backup.RestorePlan) error { return r.confirm(ctx, from, p, in, out, done) },
		Report:  done.Add,
	}
	if r.Replace {
		restoring.Salvage = func(entries map[string]string) error {
			path, err := backup.SaveEntries(r.Dir, entries)
			if err == nil && !out.JSON {
				fmt.Fprintf(out, "saved %d entries of the present register in %s\n", len(entries), path)
			}
			return err
		}
	}
	var restored backup.RestoreResult
	folder := ""
	progress.Show(func() {
		if r.Data != "" {
			folder, restored, err = restoring.RestoreFolder(ctx, r.folder(), r.Prefix, source)
			return
		}
		err = r.withPatientJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) (err error) {
			restored, err = restoring.Restore(ctx, js, r.Prefix, source)
			return errors.Join(err, restored.Undone)
		})
	}, done.progress)
	done.Raised, done.restart = restored.Raised, restored.Restart
	done.fewer, done.replicas = restored.Fewer, restored.Wanted
	if restored.Clock != nil {
		done.clock = explain(restored.Clock)
	}
	if errors.Is(err, errDryRun) || errors.Is(err, backup.ErrNothing) {
		err = nil
	}
	if err := done.End(err); err != nil || folder == "" || out.JSON || restored.Target == 0 {
		return err
	}
	_, err = fmt.Fprintf(out, "%s can be served again; snowflake IDs may follow later, see idworker status\n", folder)
	return err
}

// confirm shows what the restore will do.
func (r *restoreCmd) confirm(ctx context.Context, from backup.Backup, p backup.RestorePlan, in input, out output, done *raised) error {
	to := io.Writer(out)
	if out.JSON {
		to = io.Discard
	}
	fmt.Fprintf(to, "backup of %s, taken at %s UTC\n", describe(from), from.Taken.UTC().Format(time.DateTime))
	for _, d := range p.Kept {
		fmt.Fprintf(to, "kept: setting %s is %q, and was %q\n", d.Key, d.Here, d.Backup)
	}
	var strict []store.Tag
	for _, tag := range p.Lost.Orders {
		if tag.Order == store.Strict {
			strict = append(strict, tag)
			continue
		}
		fmt.Fprintf(to, "kept: tag %s is strict, and was trend\n", tag.Name)
	}
	if p.Nothing() && !r.RaiseAnyway {
		fmt.Fprintln(to, "nothing is missing, and no fault is known: nothing was changed; if a volume was lost or data was put back, raise all tags: --raise-anyway")
		if r.DryRun {
			return errDryRun
		}
		return backup.ErrNothing
	}
	show := func(n int, what string, names ...string) {
		if n == 0 {
			return
		}
		var some tags.Named
		for _, name := range names {
			some.Add(name)
		}
		fmt.Fprintf(to, "missing: %s: %s\n", format.Of(int64(n), what), some)
	}
	names := func(list []store.Tag) (names []string) {
		for _, tag := range list {
			names = append(names, tag.Name)
		}
		return names
	}
	switch {
	case p.Replaced != "":
		fmt.Fprintf(to, "takes the place of installation %s\n", p.Replaced)
	case p.Missing:
		fmt.Fprintln(to, "missing: the register")
	case p.Regressed != "":
		fmt.Fprintf(to, "the register may lack grants: %s\n", p.Regressed)
	case len(p.Lost.Lower) > 0:
		fmt.Fprintf(to, "the register is older than the backup: %s\n", p.Lost.Lower[0].Name)
	}
	show(len(p.Lost.Missing), "tag", names(p.Lost.Missing)...)
	show(len(p.Lost.Rowless), "row", names(p.Lost.Rowless)...)
	show(len(strict), "strict order", names(strict)...)
	show(len(p.Keys), "setting", p.Keys...)
	show(len(p.Templates), "template", p.Templates...)
	show(len(p.Enrichments), "enrichment", p.Enrichments...)
	return raisePrompt{0, r.DryRun, r.Yes, true}.confirm(ctx, p.Plan, in, out, done)
}
