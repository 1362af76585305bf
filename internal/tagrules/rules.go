package tagrules

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"
)

// Rule is what the rules say of one tag.
type Rule struct {
	// Order is the tag's own order, else that of its template, else [Trend].
	Order Order

	// Template is the template that the tag matches, the most specific one, or nil. It must not be
	// changed.
	Template *Template
}

// Rules are the rules as of some revision. They are safe for concurrent use; looking something up
// takes no lock and allocates nothing.
type Rules struct {
	orders *xsync.Map[string, Order]
	strict atomic.Int64 // how many of the orders are strict
	trees  atomic.Pointer[trees]
}

// trees are those of the templates there are.
type trees struct {
	all    templates
	living *tree
	ever   *tree // with those that were removed
	strict bool  // one of the living makes strict tags
}

func newRules() *Rules {
	r := &Rules{orders: xsync.NewMap[string, Order]()}
	r.setTemplates(nil)
	return r
}

func (r *Rules) setTemplates(all templates) {
	r.trees.Store(&trees{
		all:    all,
		living: newTree(all, func(t Template) bool { return !t.Removed }),
		ever:   newTree(all, func(Template) bool { return true }),
		strict: slices.ContainsFunc(all, func(t Template) bool { return !t.Removed && t.Order == Strict }),
	})
}

// AnyStrict reports whether any tag is strict, or a template would make one that is.
func (r *Rules) AnyStrict() bool { return r.strict.Load() > 0 || r.trees.Load().strict }

// setOrder sets a tag's own order, or drops it if there is none. It is for use by one goroutine.
func (r *Rules) setOrder(tag string, order Order) (had bool) {
	before, had := r.orders.Load(tag)
	if order == Strict && before != Strict { // before somebody may meet it
		r.strict.Add(1)
	}
	if order == "" {
		r.orders.Delete(tag)
	} else {
		r.orders.Store(tag, order)
	}
	if order != Strict && before == Strict {
		r.strict.Add(-1)
	}
	return had
}

// Lookup returns what the rules say of a tag.
func (r *Rules) Lookup(tag string) Rule {
	rule := Rule{Order: Trend, Template: r.trees.Load().living.find(tag)}
	if rule.Template != nil {
		rule.Order = rule.Template.Order
	}
	if own, ok := r.orders.Load(tag); ok {
		rule.Order = own
	}
	return rule
}

// With returns what the rules would be with one more template, or one in another's place.
func (r *Rules) With(t Template) *Rules {
	all := slices.Clone(r.trees.Load().all)
	if i := all.index(t.Pattern); i >= 0 {
		all[i] = t
	} else {
		all = append(all, t)
	}
	with := &Rules{orders: r.orders}
	with.strict.Store(r.strict.Load())
	with.setTemplates(all)
	return with
}

// Heir returns the template that counts for the tags of a template's pattern when that is removed, or nil.
func (r *Rules) Heir(pattern string) *Template {
	all := r.trees.Load().all
	if i := all.heir(pattern); i >= 0 {
		return &all[i]
	}
	return nil
}

// Own returns the order that was set for the tag itself, if one was.
func (r *Rules) Own(tag string) (order Order, found bool) { return r.orders.Load(tag) }

// FromTemplate reports whether a tag matches a template that there is or ever was. If it is in the
// store and was not created by name, it came of one.
func (r *Rules) FromTemplate(tag string) bool { return r.trees.Load().ever.find(tag) != nil }

// Former returns the pattern of the most specific template that a tag matches, if that was removed.
func (r *Rules) Former(tag string) (pattern string, found bool) {
	t := r.trees.Load().ever.find(tag)
	if t == nil || !t.Removed {
		return "", false
	}
	return t.Pattern, true
}

// First returns the highest first ID of the templates that a tag matches, those that were removed among them,
// and which of them has it; 0 if there are none.
func (r *Rules) First(tag string) (pattern string, first int64) {
	for _, t := range r.trees.Load().all {
		if Matches(t.Pattern, tag) && t.FirstID() > first {
			pattern, first = t.Pattern, t.FirstID()
		}
	}
	return pattern, first
}

// Template returns the template with that pattern, or an error that wraps [ErrNoTemplate].
func (r *Rules) Template(pattern string) (Template, error) {
	all := r.trees.Load().all
	if i := all.living(pattern); i >= 0 {
		return all[i], nil
	}
	return Template{}, fmt.Errorf("%w: %s", ErrNoTemplate, pattern)
}

// Removed returns the template with that pattern, if it was removed.
func (r *Rules) Removed(pattern string) (t Template, found bool) {
	all := r.trees.Load().all
	if i := all.index(pattern); i >= 0 && all[i].Removed {
		return all[i], true
	}
	return t, false
}

// Templates returns the templates, without those that were removed.
func (r *Rules) Templates() (living []Template) {
	for _, t := range r.trees.Load().all {
		if !t.Removed {
			living = append(living, t)
		}
	}
	return living
}

// AllTemplates returns all templates, those that were removed among them.
func (r *Rules) AllTemplates() []Template { return slices.Clone(r.trees.Load().all) }
