package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

type tagCmd struct {
	Ls     tagLsCmd     `cmd:"" help:"List tags and templates."`
	Create tagCreateCmd `cmd:"" help:"Create a tag, or a template for tags that come into being when they are first asked for."`
	Set    tagSetCmd    `cmd:"" help:"Change the step of a tag, or a template."`
	Rm     tagRmCmd     `cmd:"" help:"Remove a tag or a template."`
	Raise  tagRaiseCmd  `cmd:"" help:"Skip IDs of tags, so that none is handed out twice after a restore."`
	Export tagExportCmd `cmd:"" help:"Print all tags and templates as text, for import."`
	Import tagImportCmd `cmd:"" help:"Create and raise tags, and create templates, from the text of an export."`
}

// tagFlags are those of all commands about tags.
type tagFlags struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`
}

// withStore calls use with the tags of the installation.
func (f tagFlags) withStore(ctx context.Context, use func(context.Context, *tags.Tags) error) error {
	source, err := f.backend()
	if err != nil {
		return err
	}
	return f.withTags(ctx, source, use)
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

// sentence is the text of a result. JSON leaves it out.
type sentence string

// Text is part of report.
func (s sentence) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, string(s))
	return err
}

// tagInfo is a tag as JSON has it, see docs/command-line.md. What a command does
// not know, or did not change, is missing.
type tagInfo struct {
	sentence
	Tag      string      `json:"tag"`
	Step     int64       `json:"step,omitempty"`
	First    int64       `json:"first,string,omitempty"` // of one that was created
	Next     int64       `json:"next,string,omitempty"`  // the first ID that no worker has
	Order    store.Order `json:"order,omitempty"`
	Removed  bool        `json:"removed,omitempty"`
	Unusable string      `json:"unusable,omitempty"` // why it cannot be served
	Created  *bool       `json:"created,omitempty"`  // false if it was there before
}

// templateInfo is a template as JSON has it. A limit of 0 is none.
type templateInfo struct {
	sentence
	Pattern      string      `json:"pattern"`
	Step         int64       `json:"step"`
	Order        store.Order `json:"order"`
	First        int64       `json:"first,string"`
	MaxTags      int64       `json:"max_tags"`
	NewPerSecond int64       `json:"new_per_second"`
	Tags         *int64      `json:"tags,omitempty"` // how many it counts for, if they were counted
	Created      *bool       `json:"created,omitempty"`
}

// infoOf describes a template, of which the layout says something.
func infoOf(t templates.Template, layout string) templateInfo {
	most, rate := "no limit on tags", "no limit on new ones"
	if t.MaxTags > 0 {
		most = "at most " + format.Count(t.MaxTags) + " tags"
	}
	if t.NewPerSecond > 0 {
		rate = "at most " + format.Count(t.NewPerSecond) + " new ones a second"
	}
	settings := fmt.Sprintf("step %d, order %s, %s, %s", t.Step, t.Order, most, rate)
	return templateInfo{
		sentence: sentence(fmt.Sprintf(layout, t.Pattern, settings)),
		Pattern:  t.Pattern, Step: t.Step, Order: t.Order, First: t.FirstID(), MaxTags: t.MaxTags, NewPerSecond: t.NewPerSecond,
	}
}

// tagList is tags and templates as JSON has them.
type tagList struct {
	Tags      []tagInfo      `json:"tags"`
	Templates []templateInfo `json:"templates"`
}

func listOf(l tags.List) tagList {
	all := tagList{[]tagInfo{}, []templateInfo{}}
	for _, tag := range l.Tags {
		all.Tags = append(all.Tags, tagInfo{Tag: tag.Name, Step: tag.Step, Next: tag.Next, Order: tag.Order})
	}
	for _, t := range l.Templates {
		all.Templates = append(all.Templates, infoOf(t, "%s: %s"))
	}
	return all
}

// Text is part of report: a table of tags, and one of templates if there
// are any.
func (l tagList) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TAG\tSTEP\tNEXT\tORDER")
	for _, tag := range l.Tags {
		name, note := tag.Tag, ""
		if messages.CheckTag(name) != nil { // it may contain anything
			name = strconv.Quote(name)
		}
		if tag.Unusable != "" {
			note = "\tunusable: " + tag.Unusable
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s%s\n", name, tag.Step, tag.Next, tag.Order, note)
	}
	if err := w.Flush(); err != nil || len(l.Templates) == 0 {
		return err
	}
	limit := func(n int64) string {
		if n == 0 {
			return "any"
		}
		return strconv.FormatInt(n, 10)
	}
	fmt.Fprintln(w, "\nTEMPLATE\tSTEP\tORDER\tTAGS\tMAX TAGS\tNEW PER SECOND")
	for _, t := range l.Templates {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", t.Pattern, t.Step, t.Order, *t.Tags, limit(t.MaxTags), limit(t.NewPerSecond))
	}
	return w.Flush()
}

type tagLsCmd struct {
	tagFlags   `embed:""`
	Pattern    string `arg:"" optional:"" help:"Only tags that match, such as 'chat.*' (default: all but those that match a template)."`
	printFlags `embed:""`
}

// Run prints one tag a line, sorted by name, and marks those that cannot be
// served; and the templates. Tags that match a template are counted with it,
// and listed only if a pattern asks for them. The error names entries that
// cannot be read.
func (l *tagLsCmd) Run(ctx context.Context, out output) error {
	if l.Pattern != "" && messages.CheckTag(l.Pattern) != nil {
		if err := templates.CheckPattern(l.Pattern); err != nil {
			return err
		}
	}
	return l.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		found, made, err := t.List(ctx, l.Pattern)
		switch {
		case err != nil && !errors.Is(err, store.ErrCorrupt):
			return err
		case l.Pattern != "" && len(found.Tags)+len(found.Templates) == 0:
			return errors.Join(fmt.Errorf("%w %s", tags.ErrNoMatch, l.Pattern), err)
		}
		list := listOf(found)
		for i, tag := range found.Tags {
			if err := cmp.Or(messages.CheckTag(tag.Name), tag.Check()); err != nil {
				list.Tags[i].Unusable = err.Error()
			}
		}
		for i, template := range found.Templates {
			list.Templates[i].Tags = new(made[template.Pattern])
		}
		return errors.Join(out.Print(list), err)
	})
}

type tagSetCmd struct {
	tagFlags `embed:""`
	Tag      string `arg:"" help:"Name of the tag, or pattern of a template, which changes for tags to come."`
	Step     *int64 `help:"IDs per segment."`
	MaxStep  int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`

	MaxTags      *int64 `help:"Of a template: how many tags it may make; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"Of a template: how many tags each loader makes a second; 0 for any number." placeholder:"N"`

	printFlags `embed:""`
}

// Run changes what is given of a tag or a template, and prints it; IDs are not
// touched.
func (s *tagSetCmd) Run(ctx context.Context, out output) error {
	ofTemplate := s.MaxTags != nil || s.NewPerSecond != nil
	switch {
	case s.Step == nil && !ofTemplate:
		return problem.Usage(errors.New("nothing to change: give --step, or for a template --max-tags or --new-per-second"))
	case ofTemplate && !templates.IsPattern(s.Tag):
		return problem.Usage(errors.New("--max-tags and --new-per-second are of templates"))
	}
	if err := checkName(s.Tag); err != nil {
		return err
	}
	if s.Step != nil {
		if err := checkStep(*s.Step, s.MaxStep); err != nil {
			return err
		}
	}
	return s.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		if templates.IsPattern(s.Tag) {
			return s.changeTemplate(ctx, t, out)
		}
		if err := t.SetStep(ctx, s.Tag, *s.Step); err != nil {
			return err
		}
		text := sentence(fmt.Sprintf("tag %s: step %d", s.Tag, *s.Step))
		return out.Print(tagInfo{sentence: text, Tag: s.Tag, Step: *s.Step})
	})
}

func (s *tagSetCmd) changeTemplate(ctx context.Context, t *tags.Tags, out output) error {
	var now templates.Template
	err := templates.Change(ctx, t.JetStream, t.Prefix, s.Tag, func(template *templates.Template) {
		template.Step = orDefault(s.Step, template.Step)
		template.MaxTags = orDefault(s.MaxTags, template.MaxTags)
		template.NewPerSecond = orDefault(s.NewPerSecond, template.NewPerSecond)
		now = *template
	})
	if err != nil {
		return err
	}
	return out.Print(infoOf(now, "template %s: %s"))
}

// checkName returns an error about the name of a tag, or the pattern of a
// template.
func checkName(name string) error {
	if templates.IsPattern(name) {
		return templates.CheckPattern(name)
	}
	return messages.CheckTag(name)
}

// checkStep returns a store.ErrBadTag unless a step is 1 to most.
func checkStep(step, most int64) error {
	if step < 1 || step > most {
		return fmt.Errorf("%w: step %d, allowed is 1 to %d, the largest step", store.ErrBadTag, step, most)
	}
	return nil
}

// orDefault is what is given, or the default.
func orDefault(given *int64, otherwise int64) int64 {
	if given != nil {
		return *given
	}
	return otherwise
}

type tagRmCmd struct {
	tagFlags   `embed:""`
	Tag        string `arg:"" help:"Name of the tag, or pattern of a template; tags that came of one stay."`
	Yes        bool   `help:"Do not ask."`
	printFlags `embed:""`
}

// Run removes a tag or a template, after its name was typed once more.
func (r *tagRmCmd) Run(ctx context.Context, in input, out output) error {
	if err := checkName(r.Tag); err != nil {
		return err
	}
	return r.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		effect, err := r.effect(ctx, t)
		if err == nil && effect != "" && !r.Yes {
			err = r.confirm(ctx, effect, in, out)
		}
		if err != nil {
			return err
		}
		if templates.IsPattern(r.Tag) {
			if err := templates.Remove(ctx, t.JetStream, t.Prefix, r.Tag); err != nil {
				return err
			}
			return out.Print(removal{
				sentence: sentence("removed template " + r.Tag + "; its tags stay"),
				Removed:  r.Tag, Template: true,
			})
		}
		err = t.Remove(ctx, r.Tag)
		if err != nil && !errors.Is(err, tags.ErrNotTold) {
			return err
		}
		text := sentence("removed tag " + r.Tag)
		if err == nil {
			text += "; workers were told to drop it, and one that is cut off goes on with what it has in memory"
		}
		return errors.Join(out.Print(removal{sentence: text, Removed: r.Tag, Told: err == nil}), err)
	})
}

// removal is a tag or a template that there was.
type removal struct {
	sentence
	Removed  string `json:"removed"` // or the pattern
	Template bool   `json:"template"`
	Told     bool   `json:"workers_told,omitempty"` // to drop the tag from memory
}

// effect is what follows from the removal, "" if there is nothing to remove:
// workers may still have to be told.
func (r *tagRmCmd) effect(ctx context.Context, t *tags.Tags) (string, error) {
	all, err := t.Templates(ctx)
	if err != nil {
		return "", err
	}
	if templates.IsPattern(r.Tag) {
		_, err := all.Named(r.Tag)
		return fmt.Sprintf("No more tags will come of %s; those that exist stay.", r.Tag), err
	}
	err = t.Exists(ctx, r.Tag)
	if errors.Is(err, store.ErrNoTag) {
		return "", nil
	}
	if template := all.Find(r.Tag); template != nil {
		return fmt.Sprintf("%s matches the template %s: the next request makes it again, above what it had.", r.Tag, template.Pattern), err
	}
	return fmt.Sprintf("Requests for %s will fail.", r.Tag), err
}

// confirm asks for the name, and returns an error unless it is typed.
func (r *tagRmCmd) confirm(ctx context.Context, effect string, in input, out output) error {
	if out.JSON {
		return problem.Usage(errors.New("--json goes with --yes: nobody can be asked"))
	}
	fmt.Fprintf(out, "%s Type its name to remove it: ", effect)
	typed, err := untilDone(ctx, func() (typed string, _ error) {
		_, _ = fmt.Fscanln(in, &typed) // nothing typed is not the name
		return typed, nil
	})
	switch {
	case err != nil:
		return err
	case typed == r.Tag:
		return nil
	case !progress.IsTerminal(in.Reader):
		fmt.Fprintln(out)
		return problem.Usage(errors.New("that is not its name; nothing was removed; where nobody can type it, give --yes"))
	}
	return problem.Usage(errors.New("that is not its name; nothing was removed"))
}

// untilDone returns the result of read, or the error of ctx once that ends:
// nothing else ends a read from a terminal.
func untilDone[T any](ctx context.Context, read func() (T, error)) (result T, err error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() { // which ends with the process, at the latest
		result, err := read()
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}
