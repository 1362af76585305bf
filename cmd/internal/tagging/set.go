package tagging

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
)

// Set is tag set.
type Set struct {
	Tag     string `arg:"" help:"Name of the tag, or pattern of the template."`
	Step    *int64 `help:"IDs per segment."`
	MaxStep int64  `help:"Largest step allowed; the same as --max-step of serve." default:"1000000"`

	Order tagrules.Order `help:"trend or strict, see tag create. To strict takes until every process knows." placeholder:"ORDER"`
	Ended `embed:""`

	MaxTags      *int64 `help:"Of a template: how many tags it may make; 0 for any number." placeholder:"N"`
	NewPerSecond *int64 `help:"Of a template: how many tags each loader makes a second; 0 for any number." placeholder:"N"`
}

// Check says which arguments do not go together, and what is wrong with them.
func (s *Set) Check() error {
	ofTemplate := s.MaxTags != nil || s.NewPerSecond != nil
	switch {
	case s.Order != "" && s.Order.Check() != nil:
		return explain.Usage(fmt.Errorf("--order: %w", s.Order.Check()))
	case s.Step == nil && s.Order == "" && !ofTemplate:
		return explain.Usage(errors.New("nothing to change: give --step or --order, or for a template --max-tags or --new-per-second"))
	case ofTemplate && !tagrules.IsPattern(s.Tag):
		return explain.Usage(errors.New("--max-tags and --new-per-second are of templates"))
	}
	return errors.Join(s.checkTag(), s.check(s.Order))
}

func (s *Set) checkTag() error {
	if tagrules.IsPattern(s.Tag) {
		return tagrules.CheckPattern(s.Tag)
	}
	if s.Step == nil {
		return messages.CheckTag(s.Tag)
	}
	return tags.CheckStep(s.Tag, *s.Step, s.MaxStep)
}

// Do changes what is given, and says so; IDs are not touched.
func (s *Set) Do(ctx context.Context, t *tags.Tags, out report.Printer) error {
	if err := t.Orders.DeclareEnded(ctx, s.Ended.Ended); err != nil {
		return err
	}
	if tagrules.IsPattern(s.Tag) {
		return s.changeTemplate(ctx, t, out)
	}
	changed := changedTag{Tag: s.Tag}
	if s.Step != nil {
		if err := t.SetStep(ctx, s.Tag, *s.Step); err != nil {
			return err
		}
		changed.Step = *s.Step
	}
	if s.Order == "" {
		return out.Print(changed)
	}
	err := t.SetOrder(ctx, s.Tag, s.Order)
	if err == nil {
		changed.Order = s.Order
	} else if s.Step == nil {
		return err
	}
	return errors.Join(out.Print(changed), err)
}

// changeTemplate is Do for a template.
func (s *Set) changeTemplate(ctx context.Context, t *tags.Tags, out report.Printer) error {
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
	return out.Print(changedTemplate{infoOf(now)})
}
