package tagging

import (
	"context"
	"errors"

	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
)

// Set is tag set.
type Set struct {
	Tag     string `arg:"" help:"Name of the tag, or pattern of a template, which changes for tags to come."`
	Step    *int64 `help:"IDs per segment."`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`

	MaxTags      *int64 `help:"Of a template: how many tags it may make; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"Of a template: how many tags each loader makes a second; 0 for any number." placeholder:"N"`
}

// Check says which arguments do not go together, and what is wrong with them.
func (s *Set) Check() error {
	ofTemplate := s.MaxTags != nil || s.NewPerSecond != nil
	switch {
	case s.Step == nil && !ofTemplate:
		return problem.Usage(errors.New("nothing to change: give --step, or for a template --max-tags or --new-per-second"))
	case ofTemplate && !templates.IsPattern(s.Tag):
		return problem.Usage(errors.New("--max-tags and --new-per-second are of templates"))
	}
	check := messages.CheckTag
	if templates.IsPattern(s.Tag) {
		check = templates.CheckPattern
	}
	if err := check(s.Tag); err != nil || s.Step == nil {
		return err
	}
	return tags.CheckStep(*s.Step, s.MaxStep)
}

// Do changes what is given, and says so; IDs are not touched.
func (s *Set) Do(ctx context.Context, t *tags.Tags, out report.Printer) error {
	if templates.IsPattern(s.Tag) {
		return s.changeTemplate(ctx, t, out)
	}
	if err := t.SetStep(ctx, s.Tag, *s.Step); err != nil {
		return err
	}
	return out.Print(changedTag{Tag: s.Tag, Step: *s.Step})
}

// changeTemplate is Do for a template.
func (s *Set) changeTemplate(ctx context.Context, t *tags.Tags, out report.Printer) error {
	var now templates.Template
	err := t.ChangeTemplate(ctx, s.Tag, func(template *templates.Template) {
		template.Step = orDefault(s.Step, template.Step)
		template.MaxTags = orDefault(s.MaxTags, template.MaxTags)
		template.NewPerSecond = orDefault(s.NewPerSecond, template.NewPerSecond)
		now = *template
	})
	if err != nil {
		return err
	}
	return out.Print(changedTemplate{infoOf(now)})
}
