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
	"github.com/idworker/idworker/cmd/internal/recovery"
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
		if ahead := taken.List.Decided.Sub(taken.Taken).Round(time.Second); ahead > backup.MaxClockDiff {
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
	parts := []string{countOf(recovery.Survey{Tags: existing, Removed: len(b.List.Tags) - existing})}
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

	RaiseAnyway bool `help:"Raise all tags even if nothing is missing, as after data was put back by other means."`

	recoverFlags `embed:""`
	printFlags   `embed:""`
}

// Run shows what is missing, prompts, and puts it back. It ends like a raise.
func (r *restoreCmd) Run(ctx context.Context, in input, out output) error {
	if err := cmp.Or(r.checkData(r.named()), r.checkPin(), r.checkIgnore(), r.check(r.Prefix)); err != nil {
		return err
	}
	from, err := backup.Read(r.Dir)
	if err != nil {
		return err
	}
	if r.Installation != "" && r.Installation != from.Installation {
		return &agreement.PinError{Prefix: r.Prefix, Pinned: r.Installation, Found: from.Installation}
	}
	wish := recovery.Wish{Backup: &from, InPlaceOf: r.ReplaceInstallation, Replicas: r.Replicas, Anyway: r.RaiseAnyway, Ignore: r.Ignore, Built: built()}
	return r.run(ctx, r.tagFlags, wish, r.LeaseTTL, in, out)
}

// showRestore shows what a restore will put back. It reports whether all tags will
// be raised.
func showRestore(to io.Writer, p *recovery.Plan, wish recovery.Wish) bool {
	from, s := wish.Backup, p.Survey
	fmt.Fprintf(to, "backup of %s, taken at %s UTC\n", describe(*from), from.Taken.UTC().Format(time.DateTime))
	for _, d := range p.Kept {
		fmt.Fprintf(to, "kept: setting %s is %q, and was %q\n", d.Key, d.Here, d.Backup)
	}
	for _, tag := range s.Trend {
		fmt.Fprintf(to, "kept: tag %s is strict, and was trend\n", tag)
	}
	if p.Nothing() && !wish.Anyway {
		fmt.Fprintln(to, "nothing is missing, and no fault is known: nothing was changed; if a volume was lost or data was put back, raise all tags: --raise-anyway")
		return false
	}
	switch {
	case p.Replaced != "":
		fmt.Fprintf(to, "takes the place of installation %s\n", p.Replaced)
	case p.Missing:
		fmt.Fprintln(to, "missing: the register")
	case p.Regressed != "":
		fmt.Fprintf(to, "the register may lack grants: %s\n", p.Regressed)
	case s.Lower.Count > 0:
		fmt.Fprintf(to, "the register is older than the backup: %s\n", s.Lower.Names[0])
	}
	show := func(n recovery.Named, what string) {
		if n.Count > 0 {
			fmt.Fprintf(to, "missing: %s: %s\n", format.Of(int64(n.Count), what), n)
		}
	}
	show(s.Missing, "tag")
	show(s.Rowless, "row")
	show(s.Strict, "strict order")
	show(recovery.NamedOf(p.Settings), "setting")
	show(recovery.NamedOf(p.Templates), "template")
	show(recovery.NamedOf(p.Records), "enrichment")
	return true
}
