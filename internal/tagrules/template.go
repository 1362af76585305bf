package tagrules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxTemplates is how many templates there can be, those that were removed among them.
const MaxTemplates = 1000

var (
	// ErrTemplate is wrapped by the errors of [Template.Check].
	ErrTemplate = errors.New("bad template")

	// ErrTemplateExists says that there is a template with that pattern.
	ErrTemplateExists = errors.New("template exists already")

	// ErrNoTemplate says that there is no template with that pattern.
	ErrNoTemplate = errors.New("no such template")

	// ErrOverlap is wrapped by every [OverlapError].
	ErrOverlap = errors.New("patterns overlap, and none is more specific")

	// ErrTooMany says that there are [MaxTemplates] already.
	ErrTooMany = fmt.Errorf("there are %d templates, which is the limit", MaxTemplates)

	// ErrUnreadable says that a rule that is stored cannot be read, and that nothing was changed.
	ErrUnreadable = errors.New("unreadable rule")
)

// OverlapError says which template does not go with a new one.
type OverlapError struct{ Pattern, Other string }

func (e *OverlapError) Error() string {
	return fmt.Sprintf("%v: some tags match both %s and %s, and it could not be told which of the two counts", ErrOverlap, e.Pattern, e.Other)
}

// Unwrap makes it an [ErrOverlap].
func (e *OverlapError) Unwrap() error { return ErrOverlap }

// Template says how tags come into being that match a pattern.
type Template struct {
	Pattern      string `json:"pattern"`
	Step         int64  `json:"step"` // the configured step of its tags
	Order        Order  `json:"order,omitempty"`
	First        int64  `json:"first,omitempty"`          // see [Template.FirstID]; 0: 1
	MaxTags      int64  `json:"max_tags,omitempty"`       // how many there may be; 0: any number
	NewPerSecond int64  `json:"new_per_second,omitempty"` // that each loader makes; 0: any number
	Removed      bool   `json:"removed,omitempty"`

	// Becoming is set while tags may be becoming strict with this template, see [Editor.Settle].
	Becoming bool `json:"becoming,omitempty"`
}

// isStrict reports whether the tags for which the template counts are strict. There may be none, nil.
func (t *Template) isStrict() bool { return t != nil && t.Order == Strict }

// decidesAs reports whether the order of tags is left as it is if this template counts for them, and
// the other one did.
func (t *Template) decidesAs(other *Template) bool {
	if !t.isStrict() && !other.isStrict() {
		return true
	}
	return t != nil && other != nil && t.Pattern == other.Pattern && t.Order == other.Order && t.Becoming == other.Becoming
}

// FirstID is the lowest first ID of a tag that comes into being. That a store has no such tag does not prove
// that it is a new one: it may have been made after the backup that the store was restored from. So who
// raises all tags after a restore raises this as well, and nothing ever lowers it, see [Editor.RaiseFirst].
func (t Template) FirstID() int64 { return max(1, t.First) }

// Check returns an error that wraps [ErrTemplate], [ErrPattern] or [ErrOrder] if something is out of bounds.
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
		return fmt.Errorf("%w: at most %d tags, allowed is 0, for any number, or more", ErrTemplate, t.MaxTags)
	case t.NewPerSecond < 0 || t.NewPerSecond > math.MaxInt32:
		return fmt.Errorf("%w: %d new tags a second, allowed is 0, for any number, to %d", ErrTemplate, t.NewPerSecond, math.MaxInt32)
	}
	return nil
}

// templates are all that there are, those that were removed among them.
type templates []Template

func decodeTemplates(value []byte) (all templates, err error) {
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	for i := range all {
		t := &all[i]
		t.Order = cmp.Or(t.Order, Trend)
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
	return all, nil
}

func (all templates) index(pattern string) int {
	return slices.IndexFunc(all, func(t Template) bool { return t.Pattern == pattern })
}

// living returns the index of a template that was not removed, or -1.
func (all templates) living(pattern string) int {
	i := all.index(pattern)
	if i >= 0 && all[i].Removed {
		return -1
	}
	return i
}

// add returns the templates with a new one among them. Tags that it is for may have come of others, so its
// first ID is not below theirs.
func (all templates) add(t Template) (templates, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	for _, other := range all {
		a, b := t.Pattern, other.Pattern
		if Overlap(a, b) {
			t.First = max(t.First, other.First)
		}
		switch {
		case a == b && !other.Removed && (!other.Becoming || t.Order != Strict): // else one broke off
			return nil, fmt.Errorf("%w: %s", ErrTemplateExists, a)
		case Overlap(a, b) && !covers(a, b) && !covers(b, a) && !other.Removed && !t.Removed:
			return nil, &OverlapError{a, b}
		}
	}
	t.Becoming = t.Order == Strict && !t.Removed
	all = slices.Clone(all)
	if i := all.index(t.Pattern); i >= 0 {
		all[i] = t
		return all, nil
	}
	if len(all) >= MaxTemplates {
		return nil, ErrTooMany
	}
	return append(all, t), nil
}

// change returns the templates with one of them changed. If that changes the order of tags to strict, they
// are becoming strict.
func (all templates) change(pattern string, change func(*Template)) (templates, error) {
	i := all.living(pattern)
	if i < 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoTemplate, pattern)
	}
	all = slices.Clone(all)
	before, t := all[i], &all[i]
	change(t)
	t.Pattern, t.First = pattern, max(t.First, before.First)
	t.Becoming = t.Order == Strict && !t.Removed && (before.Becoming || before.Order != Strict)
	if t.Removed && (before.Order != Strict || before.Becoming) {
		all.inherit(pattern)
	}
	return all, t.Check()
}

// inherit is for when a template has been removed whose tags were not strict, or not yet. If they are now,
// since a less specific one counts for them, they are becoming strict with that.
func (all templates) inherit(pattern string) {
	if i := all.heir(pattern); i >= 0 && all[i].Order == Strict {
		all[i].Becoming = true
	}
}

// heir returns the index of the template that would count for the tags of another one without that, or -1.
func (all templates) heir(pattern string) int {
	heir := -1
	for i, t := range all {
		if !t.Removed && t.Pattern != pattern && covers(t.Pattern, pattern) && (heir < 0 || covers(all[heir].Pattern, t.Pattern)) {
			heir = i
		}
	}
	return heir
}

// settle returns the templates with none that is becoming strict any more.
func (all templates) settle() templates {
	all = slices.Clone(all)
	for i := range all {
		all[i].Becoming = false
	}
	return all
}

// keepFrom returns the templates of a list that is older than these: these, with those that are strict in the
// other one only.
func (all templates) keepFrom(older templates) templates {
	all = slices.Clone(all)
	for _, t := range older {
		i := all.index(t.Pattern)
		if i < 0 {
			all = append(all, t)
			continue
		}
		first := max(t.First, all[i].First)
		if t.Order == Strict && !t.Removed && (all[i].Removed || all[i].Order != Strict) {
			all[i] = t
		}
		all[i].First = first
	}
	return all
}

func (all templates) encode() []byte {
	value, err := json.Marshal(all)
	if err != nil { // strings and integers always marshal
		panic(err)
	}
	return value
}
