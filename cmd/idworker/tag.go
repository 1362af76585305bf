package main

import (
	"cmp"
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
	Ls     tagLsCmd     `cmd:"" help:"List tags and templates."`
	Create tagCreateCmd `cmd:"" help:"Create a tag, or a template for tags that come into being when they are first asked for."`
	Set    tagSetCmd    `cmd:"" help:"Change the step or the order of a tag, or a template."`
	Rm     tagRmCmd     `cmd:"" help:"Remove a tag or a template."`
	Raise  tagRaiseCmd  `cmd:"" help:"Skip IDs of tags, so that none is handed out twice after a restore."`
	Export tagExportCmd `cmd:"" help:"Print all tags and templates as text, for import."`
	Import tagImportCmd `cmd:"" help:"Create and raise tags, and create templates, from the text of an export."`
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

	Pattern string `arg:"" optional:"" help:"Only tags that match, those among them that came of templates: such as 'chat.*'."`
}

// Run prints one tag a line, sorted by name, and marks those that cannot be served; and the templates.
// What came of these is counted, and listed only if a pattern asks for it. The error names entries
// that cannot be read.
func (l *tagLsCmd) Run(ctx context.Context, out output) error {
	if l.Pattern != "" && messages.CheckTag(l.Pattern) != nil {
		if err := tagrules.CheckPattern(l.Pattern); err != nil {
			return err
		}
	}
	source, err := l.backend()
	if err != nil {
		return err
	}
	return l.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		listing, err := t.ListAll(ctx, l.Pattern)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TAG\tSTEP\tNEXT\tORDER")
		for _, tag := range listing.Tags {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s%s\n", printable(tag.Name), tag.Step, tag.Next, listing.Rules.Lookup(tag.Name).Order, note(tag))
		}
		return errors.Join(w.Flush(), printTemplates(out, listing), err)
	})
}

// printTemplates prints one template a line, if there are any.
func printTemplates(out output, listing tags.Listing) error {
	if len(listing.Templates) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nTEMPLATE\tSTEP\tORDER\tTAGS\tMAX TAGS\tNEW PER SECOND")
	for _, t := range listing.Templates {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", t.Pattern, t.Step, t.Order, listing.Made[t.Pattern], limit(t.MaxTags), limit(t.NewPerSecond))
	}
	return w.Flush()
}

// limit is a limit of a template for people.
func limit(n int64) string {
	if n == 0 {
		return "any"
	}
	return strconv.FormatInt(n, 10)
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

	Tag     string `arg:"" help:"Name: A-Z a-z 0-9 _ - and dots between tokens, at most 128 bytes. With --template a pattern: * for any one token, > in the end for the rest, such as 'chat.*'."`
	Step    int64  `help:"IDs per segment: about what is used in ten minutes at peak. Of a template's tags, what is left when a worker forgets one is a gap." default:"1000"`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`
	First   int64  `help:"The first ID; with --template, that of each new tag." default:"1"`

	Order     tagrules.Order `help:"trend: the IDs of each worker go up. strict: every ID is higher than all that were answered before it was asked for, whoever asks whom; one worker at a time answers." default:"trend" enum:"trend,strict"`
	endedFlag `embed:""`

	Template     bool  `help:"Every tag that matches the pattern comes into being when it is first asked for, with --first as its first ID."`
	MaxTags      int64 `help:"With --template: how many tags it may make, those that were removed among them; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"With --template: how many tags each loader makes a second; 0 for any number. The default is 1000." placeholder:"N"`
}

// defaultNewPerSecond is what a template is given, so that no caller fills a store with made-up names as fast
// as it can write.
const defaultNewPerSecond = 1000

// check says which arguments do not go together, and what is wrong with a tag.
func (c *tagCreateCmd) check(tag store.Tag) error {
	switch {
	case !c.Template && (c.MaxTags != 0 || c.NewPerSecond != nil):
		return explain.Usage(errors.New("--max-tags and --new-per-second go with --template"))
	case !c.Template && tagrules.IsPattern(c.Tag):
		return explain.Usage(fmt.Errorf("%s is a pattern: give --template for tags that come into being when they are first asked for", c.Tag))
	case !c.Template:
		return tags.Check(tag, c.MaxStep)
	case c.First < 1:
		return explain.Usage(fmt.Errorf("--first %d: want 1 or more", c.First))
	}
	return nil
}

// createTemplate creates a template.
func (c *tagCreateCmd) createTemplate(ctx context.Context, t *tags.Tags, out output) error {
	template := tagrules.Template{Pattern: c.Tag, Step: c.Step, Order: c.Order, MaxTags: c.MaxTags, NewPerSecond: defaultNewPerSecond, First: c.First}
	if c.NewPerSecond != nil {
		template.NewPerSecond = *c.NewPerSecond
	}
	if err := t.CreateTemplate(ctx, template, c.MaxStep); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "created template %s: step %d, order %s, %s tags, %s new ones a second\n",
		c.Tag, c.Step, c.Order, limit(c.MaxTags), limit(template.NewPerSecond))
	return err
}

// endedFlag says which processes are not waited for.
type endedFlag struct {
	Ended []string `help:"Where tags become strict: instances that have ended for certain, though they did not say so. They are not waited for." placeholder:"INSTANCE"`
}

// Run creates a tag.
func (c *tagCreateCmd) Run(ctx context.Context, out output) error {
	tag := store.Tag{Name: c.Tag, Step: c.Step, Next: c.First}
	if err := c.check(tag); err != nil {
		return err
	}
	source, err := c.backend()
	if err != nil {
		return err
	}
	return c.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		t.Orders.Ended = c.Ended
		if c.Template {
			return c.createTemplate(ctx, t, out)
		}
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

	Tag     string `arg:"" help:"Name of the tag, or pattern of the template."`
	Step    *int64 `help:"IDs per segment."`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`

	Order     tagrules.Order `help:"trend or strict, see tag create. To strict takes until every process knows." enum:",trend,strict" default:""`
	endedFlag `embed:""`

	MaxTags      *int64 `help:"Of a template: how many tags it may make; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"Of a template: how many tags each loader makes a second; 0 for any number." placeholder:"N"`
}

// Run changes what is given; IDs are not touched.
func (s *tagSetCmd) Run(ctx context.Context, out output) error {
	ofTemplate := s.MaxTags != nil || s.NewPerSecond != nil
	switch {
	case s.Step == nil && s.Order == "" && !ofTemplate:
		return explain.Usage(errors.New("nothing to change: give --step or --order, or for a template --max-tags or --new-per-second"))
	case ofTemplate && !tagrules.IsPattern(s.Tag):
		return explain.Usage(errors.New("--max-tags and --new-per-second are of templates"))
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
	if tagrules.IsPattern(s.Tag) {
		return tagrules.CheckPattern(s.Tag)
	}
	if s.Step == nil {
		return messages.CheckTag(s.Tag)
	}
	return tags.CheckStep(s.Tag, *s.Step, s.MaxStep)
}

// change changes what is to be changed, and says so.
func (s *tagSetCmd) change(ctx context.Context, t *tags.Tags, out output) error {
	if tagrules.IsPattern(s.Tag) {
		return s.changeTemplate(ctx, t, out)
	}
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

// changeTemplate is change for a template.
func (s *tagSetCmd) changeTemplate(ctx context.Context, t *tags.Tags, out output) error {
	t.Orders.Ended = s.Ended
	var now tagrules.Template
	err := t.ChangeTemplate(ctx, s.Tag, func(template *tagrules.Template) {
		template.Order = cmp.Or(s.Order, template.Order)
		for _, f := range []struct{ to, given *int64 }{
			{&template.Step, s.Step}, {&template.MaxTags, s.MaxTags}, {&template.NewPerSecond, s.NewPerSecond},
		} {
			if f.given != nil {
				*f.to = *f.given
			}
		}
		now = *template
	}, s.MaxStep)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "template %s: step %d, order %s, %s tags, %s new ones a second\n",
		s.Tag, now.Step, now.Order, limit(now.MaxTags), limit(now.NewPerSecond))
	return err
}

type tagRmCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`

	Tag string `arg:"" help:"Name of the tag, or pattern of the template. What came of a template stays in the store, and goes on counting if the template is made again."`
	Yes bool   `help:"Do not ask."`
}

// Run removes a tag or a template, after its name was typed once more.
func (r *tagRmCmd) Run(ctx context.Context, in input, out output) error {
	check, kind := messages.CheckTag, "tag"
	remove, warning := (*tags.Tags).Remove, "Requests for %s will fail."
	if tagrules.IsPattern(r.Tag) {
		check, kind = tagrules.CheckPattern, "template"
		remove, warning = (*tags.Tags).RemoveTemplate, "Requests for all tags that came of %s will fail."
	}
	if err := check(r.Tag); err != nil {
		return err
	}
	source, err := r.backend()
	if err != nil {
		return err
	}
	if !r.Yes {
		fmt.Fprintf(out, warning+" Type its name to remove it: ", r.Tag)
		var typed string
		if _, _ = fmt.Fscanln(in, &typed); typed != r.Tag {
			return explain.Usage(errors.New("that is not its name; nothing was removed"))
		}
	}
	return r.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		if err := remove(t, ctx, r.Tag); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "removed %s %s\n", kind, r.Tag)
		return err
	})
}
