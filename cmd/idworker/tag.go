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
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
)

type tagCmd struct {
	Ls     tagLsCmd     `cmd:"" help:"List tags and templates."`
	Create tagCreateCmd `cmd:"" help:"Create a tag or a template."`
	Set    tagSetCmd    `cmd:"" help:"Change a tag or a template."`
	Rm     tagRmCmd     `cmd:"" help:"Remove a tag or a template."`
	Raise  tagRaiseCmd  `cmd:"" help:"Skip IDs, as after a restore."`
	Export tagExportCmd `cmd:"" help:"Print all tags and templates, for import."`
	Import tagImportCmd `cmd:"" help:"Import tags and templates from an export."`
}

// tagFlags are for all commands about tags.
type tagFlags struct {
	natsFlags  `embed:"" group:"nats"`
	storeFlags `embed:"" group:"store"`
	pinFlag    `embed:""`
}

// withPinned connects, checks that NATS has the pinned installation, and calls
// use.
func (f tagFlags) withPinned(ctx context.Context, use func(context.Context, jetstream.JetStream) error) error {
	if err := f.checkPin(); err != nil {
		return err
	}
	return f.withPatientJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		if err := f.admit(ctx, js, f.Prefix); err != nil {
			return err
		}
		return use(ctx, js)
	})
}

// withStore calls use with the tags of the installation.
func (f tagFlags) withStore(ctx context.Context, use func(context.Context, *tags.Tags) error) error {
	source, err := f.backend()
	if err != nil {
		return err
	}
	return f.withPinned(ctx, withTags(f.Prefix, source, use))
}

// withTags returns a function that opens the tags of an installation, and calls
// use.
func withTags(prefix messages.Prefix, source backend.Backend, use func(context.Context, *tags.Tags) error) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		t, err := tags.Open(ctx, js, prefix, source)
		if err != nil {
			return err
		}
		defer t.Close()
		return use(ctx, t)
	}
}

// sentence is the text of a result. JSON omits it.
type sentence string

// Text implements report.
func (s sentence) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, string(s))
	return err
}

// tagInfo is a tag in JSON, see docs/command-line.md. Unknown and unchanged
// fields are missing.
type tagInfo struct {
	sentence
	Tag   string `json:"tag"`
	Step  int64  `json:"step,omitempty"`
	First int64  `json:"first,string,omitempty"` // of a created tag
	// The first ID that was not granted.
	Next    int64       `json:"next,string,omitempty"`
	Order   store.Order `json:"order,omitempty"`
	Removed bool        `json:"removed,omitempty"`
	// Counted by the workers that hold it, since they do. The rest is buffered or
	// burnt.
	Granted int64 `json:"granted,string,omitempty"`
	Issued  int64 `json:"issued,string,omitempty"`
	// The number of IDs, if less than a tenth of all is left.
	Left *int64 `json:"left,string,omitempty"`
	// The reason, if it cannot be served.
	Unusable string `json:"unusable,omitempty"`
	Created  *bool  `json:"created,omitempty"` // false if it existed
}

// templateInfo is a template in JSON. A limit of 0 means unlimited.
type templateInfo struct {
	sentence
	Pattern      string      `json:"pattern"`
	Step         int64       `json:"step"`
	Order        store.Order `json:"order"`
	First        int64       `json:"first,string"`
	MaxTags      int64       `json:"max_tags"`
	NewPerSecond int64       `json:"new_per_second"`
	// The number of its tags, if counted.
	Tags    *int64 `json:"tags,omitempty"`
	Created *bool  `json:"created,omitempty"`
	templates.Dates
}

// infoOf describes a template. The format gets its pattern and settings.
func infoOf(t templates.Template, layout string) templateInfo {
	most, rate := "unlimited tags", "unlimited new tags"
	if t.MaxTags > 0 {
		most = "at most " + format.Of(t.MaxTags, "tag")
	}
	if t.NewPerSecond > 0 {
		rate = "at most " + format.Of(t.NewPerSecond, "new tag") + " a second"
	}
	settings := fmt.Sprintf("step %d, order %s, %s, %s", t.Step, t.Order, most, rate)
	if dates := datesOf(t.Dates); dates != "" {
		settings += ", " + dates
	}
	return templateInfo{
		sentence: sentence(fmt.Sprintf(layout, t.Pattern, settings)),
		Pattern:  t.Pattern, Step: t.Step, Order: t.Order, First: t.FirstID(), MaxTags: t.MaxTags, NewPerSecond: t.NewPerSecond,
		Dates: t.Dates,
	}
}

// datesOf describes the dates of a template, or returns "" if it has none.
func datesOf(d templates.Dates) string {
	if d.Dated == "" {
		return ""
	}
	return fmt.Sprintf("dated %s, used %s ahead", d.Dated, format.Duration(float64(d.Ahead)))
}

// tagList is tags and templates in JSON.
type tagList struct {
	Tags      []tagInfo      `json:"tags"`
	Templates []templateInfo `json:"templates"`
}

func listOf(l tags.Listing) tagList {
	all := tagList{[]tagInfo{}, []templateInfo{}}
	for _, tag := range l.Tags {
		all.Tags = append(all.Tags, tagInfo{Tag: tag.Name, Step: tag.Step, Next: tag.Next, Order: tag.Order})
	}
	for _, t := range l.Templates {
		all.Templates = append(all.Templates, infoOf(t, "%s: %s"))
	}
	return all
}

// Text implements report: a table of tags, and one of templates if there are
// any.
func (l tagList) Text(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TAG\tSTEP\tNEXT\tORDER\tUSED")
	for _, tag := range l.Tags {
		name, used, note := tag.Tag, "-", ""
		if messages.CheckTag(name) != nil { // such a name may contain anything
			name = strconv.Quote(name)
		}
		if tag.Granted > 0 {
			used = fmt.Sprintf("%.3g%%", 100*float64(tag.Issued)/float64(tag.Granted))
		}
		switch {
		case tag.Unusable != "":
			note = "\tunusable: " + tag.Unusable
		case tag.Left != nil && *tag.Left < 1:
			note = "\texhausted"
		case tag.Left != nil:
			note = fmt.Sprintf("\tsoon exhausted: %s left", format.Of(*tag.Left, "ID"))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s%s\n", name, tag.Step, tag.Next, tag.Order, used, note)
	}
	if err := w.Flush(); err != nil || len(l.Templates) == 0 {
		return err
	}
	limit := func(n int64) string {
		if n == 0 {
			return "unlimited"
		}
		return strconv.FormatInt(n, 10)
	}
	fmt.Fprintln(w, "\nTEMPLATE\tSTEP\tORDER\tTAGS\tMAX TAGS\tNEW PER SECOND")
	for _, t := range l.Templates {
		dates := datesOf(t.Dates)
		if dates != "" {
			dates = "\t" + dates
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s%s\n", t.Pattern, t.Step, t.Order, *t.Tags, limit(t.MaxTags), limit(t.NewPerSecond), dates)
	}
	return w.Flush()
}

type tagLsCmd struct {
	tagFlags   `embed:""`
	Pattern    string `arg:"" optional:"" help:"Tag or pattern (default: tags without a template)."`
	printFlags `embed:""`
}

// Run prints the tags, sorted by name, and the templates. It marks unusable
// tags. Tags that match a template are counted with it, and listed only if a
// pattern selects them. The error names unreadable entries.
func (l *tagLsCmd) Run(ctx context.Context, out output) error {
	if l.Pattern != "" && messages.CheckTag(l.Pattern) != nil {
		if err := templates.CheckPattern(l.Pattern); err != nil {
			return err
		}
	}
	source, err := l.backend()
	if err != nil {
		return err
	}
	return l.withPinned(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		t, err := tags.OpenToList(ctx, js, l.Prefix, source)
		if err != nil {
			return err
		}
		defer t.Close()
		found, made, err := t.List(ctx, l.Pattern)
		switch {
		case err != nil && !errors.Is(err, store.ErrCorrupt):
			return err
		case l.Pattern != "" && len(found.Tags)+len(found.Templates) == 0:
			return errors.Join(fmt.Errorf("%w %s", tags.ErrNoMatch, l.Pattern), err)
		}
		list := listOf(found)
		uses := t.Uses(ctx)
		limit, errLimit := t.Limit(ctx)
		if errLimit != nil {
			return errLimit
		}
		for i, tag := range found.Tags {
			if err := cmp.Or(messages.CheckTag(tag.Name), tag.Check()); err != nil {
				list.Tags[i].Unusable = err.Error()
			}
			use := uses[tag.Name]
			list.Tags[i].Granted, list.Tags[i].Issued = use.Granted, use.Issued
			if left := max(limit-tag.Next, 0); left < limit/10 {
				list.Tags[i].Left = &left
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
	Tag      string `arg:"" help:"Tag, or pattern of a template."`
	Step     *int64 `help:"Least number of IDs per segment."`
	MaxStep  int64  `help:"Largest allowed step, as serve --max-step." default:"1000000"`

	MaxTags      *int64 `help:"Template: most tags (0: unlimited)." placeholder:"N"`
	NewPerSecond *int64 `help:"Template: new tags a second per loader (0: unlimited)." placeholder:"N"`

	printFlags `embed:""`
}

// Run changes the given settings of a tag or a template, and prints it. IDs do
// not change.
func (s *tagSetCmd) Run(ctx context.Context, out output) error {
	ofTemplate := s.MaxTags != nil || s.NewPerSecond != nil
	switch {
	case s.Step == nil && !ofTemplate:
		return problem.Usage(errors.New("nothing to change; give --step, or for a template --max-tags or --new-per-second"))
	case ofTemplate && !templates.IsPattern(s.Tag):
		return problem.Usage(errors.New("--max-tags and --new-per-second are for templates"))
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
	now.First = max(now.FirstID(), t.Lowest())
	return out.Print(infoOf(now, "template %s: %s"))
}

// checkName checks the name of a tag, or the pattern of a template.
func checkName(name string) error {
	if templates.IsPattern(name) {
		return templates.CheckPattern(name)
	}
	return messages.CheckTag(name)
}

// checkStep returns a store.ErrBadTag unless the step is 1 to most.
func checkStep(step, most int64) error {
	if step < 1 || step > most {
		return fmt.Errorf("%w: step %d, allowed is 1 to %d", store.ErrBadTag, step, most)
	}
	return nil
}

// orDefault returns the given value, or else the default.
func orDefault(given *int64, otherwise int64) int64 {
	if given != nil {
		return *given
	}
	return otherwise
}

type tagRmCmd struct {
	tagFlags   `embed:""`
	Tag        string `arg:"" help:"Tag, or pattern of a template."`
	Yes        bool   `help:"Skip the prompt."`
	printFlags `embed:""`
}

// Run removes a tag or a template, after the user has typed its name again.
func (r *tagRmCmd) Run(ctx context.Context, in input, out output) error {
	if err := checkName(r.Tag); err != nil {
		return err
	}
	return r.withStore(ctx, func(ctx context.Context, t *tags.Tags) error {
		effect, err := r.effect(ctx, t)
		if err == nil && effect != "" && !r.Yes {
			err = confirm(ctx, r.Tag, effect+typeName, "removed", in, out)
		}
		if err != nil {
			return err
		}
		if templates.IsPattern(r.Tag) {
			if err := templates.Remove(ctx, t.JetStream, t.Prefix, r.Tag); err != nil {
				return err
			}
			return out.Print(removal{
				sentence: sentence("removed template " + r.Tag + "; its tags remain"),
				Removed:  r.Tag, Template: true,
			})
		}
		err = t.Remove(ctx, r.Tag)
		if err != nil && !errors.Is(err, tags.ErrNotNotified) {
			return err
		}
		text := sentence("removed tag " + r.Tag)
		if err == nil {
			text += "; workers were notified, and disconnected ones use up their buffers"
		}
		return errors.Join(out.Print(removal{sentence: text, Removed: r.Tag, Notified: err == nil}), err)
	})
}

// removal is the report about a removed tag or template.
type removal struct {
	sentence
	Removed  string `json:"removed"` // or a pattern
	Template bool   `json:"template"`
	Notified bool   `json:"workers_told,omitempty"` // to drop the tag's buffers
}

// effect describes the effect of the removal, or returns "" if there is no such
// tag. Workers may still need the notification then.
func (r *tagRmCmd) effect(ctx context.Context, t *tags.Tags) (string, error) {
	all, err := t.Templates(ctx)
	if err != nil {
		return "", err
	}
	if templates.IsPattern(r.Tag) {
		_, err := all.Named(r.Tag)
		return fmt.Sprintf("%s will make no more tags; existing ones stay.", r.Tag), err
	}
	err = t.Exists(ctx, r.Tag)
	if errors.Is(err, store.ErrNoTag) {
		return "", nil
	}
	if template := all.Find(r.Tag); template != nil {
		return fmt.Sprintf("%s matches the template %s: the next request creates it again, above its last ID.", r.Tag, template.Pattern), err
	}
	return fmt.Sprintf("Requests for %s will fail.", r.Tag), err
}

// typeName ends a prompt for the name of a tag.
const typeName = " Type its name to confirm: "

// confirm prompts for a word, and returns an error if another is typed: then
// nothing was done.
func confirm(ctx context.Context, word, prompt, done string, in input, out output) error {
	if out.JSON {
		return problem.Usage(errors.New("--json needs --yes: it cannot prompt"))
	}
	fmt.Fprintf(out, "%s", prompt)
	typed, err := untilDone(ctx, func() (typed string, _ error) {
		_, _ = fmt.Fscanln(in, &typed) // an empty line is not the word
		return typed, nil
	})
	switch {
	case err != nil:
		return err
	case typed == word:
		return nil
	case !progress.IsTerminal(in.Reader):
		fmt.Fprintln(out)
		return problem.Usage(fmt.Errorf("not confirmed; nothing was %s; use --yes to skip the prompt", done))
	}
	return problem.Usage(fmt.Errorf("not confirmed; nothing was %s", done))
}

// untilDone returns the result of read, or the error of ctx once that ends.
// Nothing else ends a read from a terminal.
func untilDone[T any](ctx context.Context, read func() (T, error)) (result T, err error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() { // ends with the process at the latest
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
