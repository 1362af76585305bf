package templates

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/store"
)

// MaxTemplates is the maximum number of templates.
const MaxTemplates = 1000

var (
	// ErrTemplate is wrapped by the errors of [Template.Check].
	ErrTemplate = problem.New(problem.Invalid, "bad template")

	// ErrTemplateExists reports that there is a template with that pattern.
	ErrTemplateExists = errors.New("template already exists")

	// ErrNoTemplate reports that there is no template with that pattern.
	ErrNoTemplate = problem.New(problem.NotFound, "no such template")

	// ErrOverlap is wrapped by every [OverlapError].
	ErrOverlap = problem.New(problem.Invalid, "patterns overlap and neither is more specific")

	// ErrTooMany reports that there are already [MaxTemplates].
	ErrTooMany = fmt.Errorf("limit of %d templates reached", MaxTemplates)

	// ErrUnreadable reports that the stored templates are unreadable; nothing
	// was changed.
	ErrUnreadable = errors.New("unreadable templates")
)

// OverlapError names the template that is incompatible with a new template.
type OverlapError struct{ Pattern, Other string }

func (e *OverlapError) Error() string {
	return fmt.Sprintf("%v: some tags match both %s and %s", ErrOverlap, e.Pattern, e.Other)
}

// Unwrap returns [ErrOverlap].
func (e *OverlapError) Unwrap() error { return ErrOverlap }

// Template defines how tags that match a pattern are created.
type Template struct {
	Pattern string      `json:"pattern"`
	Step    int64       `json:"step"` // the configured step of its tags
	Order   store.Order `json:"order,omitempty"`
	First   int64       `json:"first,omitempty"`    // see [Template.FirstID]; 0: 1
	MaxTags int64       `json:"max_tags,omitempty"` // 0: any number
	// Limit for each loader; 0: any number.
	NewPerSecond int64 `json:"new_per_second,omitempty"`
	Dates
}

// FirstID returns the first ID of a new tag.
func (t Template) FirstID() int64 { return max(1, t.First) }

// Check returns an error that wraps [ErrTemplate], [ErrPattern] or
// [store.ErrBadTag] if a field is out of bounds.
func (t Template) Check() error {
	if err := cmp.Or(CheckPattern(t.Pattern), t.Order.Check()); err != nil {
		return err
	}
	switch {
	case t.Step < 1:
		return fmt.Errorf("%w: step %d, allowed is 1 or more", ErrTemplate, t.Step)
	case t.First < 0:
		return fmt.Errorf("%w: first ID %d, allowed is 1 or more", ErrTemplate, t.First)
	case t.MaxTags < 0:
		return fmt.Errorf("%w: at most %d tags, allowed is 0 (no limit) or more", ErrTemplate, t.MaxTags)
	case t.NewPerSecond < 0 || t.NewPerSecond > math.MaxInt32:
		return fmt.Errorf("%w: %d new tags a second, allowed is 0 (no limit) to %d", ErrTemplate, t.NewPerSecond, math.MaxInt32)
	}
	if _, err := store.Following(t.FirstID(), t.Step); err != nil {
		return fmt.Errorf("%w: first ID %d leaves no room for a segment of %d below 2^63", ErrTemplate, t.First, t.Step)
	}
	return t.check()
}

// List is all templates: a more specific template precedes a less specific
// template. It must not be changed.
type List []Template

// Find returns the most specific template that matches a tag, or nil.
func (l List) Find(tag string) *Template {
	for i := range l {
		if subject.Covers(l[i].Pattern, tag) {
			return &l[i]
		}
	}
	return nil
}

// Named returns the template with that pattern, or an error that wraps
// [ErrNoTemplate].
func (l List) Named(pattern string) (Template, error) {
	if i := l.index(pattern); i >= 0 {
		return l[i], nil
	}
	return Template{}, fmt.Errorf("%w: %s", ErrNoTemplate, pattern)
}

func (l List) index(pattern string) int {
	return slices.IndexFunc(l, func(t Template) bool { return t.Pattern == pattern })
}

// With returns the list with a new template, or the error of [Create].
func (l List) With(t Template) (List, error) {
	t.Order = cmp.Or(t.Order, store.Trend)
	if err := t.Check(); err != nil {
		return nil, err
	}
	for _, other := range l {
		a, b := t.Pattern, other.Pattern
		switch {
		case a == b:
			return nil, fmt.Errorf("%w: %s", ErrTemplateExists, a)
		case subject.Overlap(a, b) && !subject.Covers(a, b) && !subject.Covers(b, a):
			return nil, &OverlapError{a, b}
		}
	}
	if len(l) >= MaxTemplates {
		return nil, ErrTooMany
	}
	return append(slices.Clone(l), t).sorted(), nil
}

// Join returns the list with the templates of another list, and the additions.
// A template in both lists stays, with the higher first ID of the two. Its
// dates must not promise anything about tags of the other list that the other
// template does not promise.
func (l List) Join(other List) (joined, added List, err error) {
	joined = slices.Clone(l)
	for _, t := range other {
		if i := joined.index(t.Pattern); i >= 0 {
			if dates := joined[i].Dates; dates != (Dates{}) && dates != t.Dates {
				return nil, nil, fmt.Errorf("%w: %s is dated otherwise in the list", ErrTemplate, t.Pattern)
			}
			if t.First > joined[i].First {
				joined[i].First = t.First
				if err := joined[i].Check(); err != nil {
					return nil, nil, err
				}
			}
			continue
		}
		if joined, err = joined.With(t); err != nil {
			return nil, nil, err
		}
		added = append(added, t)
	}
	return joined, added, nil
}

// change returns the list with one template changed, but for its pattern.
func (l List) change(pattern string, change func(*Template)) (List, error) {
	if _, err := l.Named(pattern); err != nil {
		return nil, err
	}
	l = slices.Clone(l)
	t := &l[l.index(pattern)]
	change(t)
	t.Pattern = pattern
	return l, t.Check()
}

// sorted sorts the list in place, and returns it.
func (l List) sorted() List {
	slices.SortFunc(l, func(a, b Template) int { return cmp.Compare(specificity(a.Pattern), specificity(b.Pattern)) })
	return l
}
