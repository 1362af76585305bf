package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// A template is a rule and no tag: the store and the directory know nothing of it. Its tags are in the
// store alone, and come into being when they are first asked for.

var (
	// ErrTagsExist is wrapped by the error about tags that keep a template from being made.
	ErrTagsExist = errors.New("tags exist that match the pattern")

	// ErrTrendTags is wrapped by the error about tags of a template that cannot become strict with it.
	ErrTrendTags = errors.New("tags of the template exist that are not strict")
)

// CreateTemplate makes a template. Tags that were made by name keep it from being made: they would have
// another step, and perhaps another order, than the pattern says. Those that came of a template, of this
// one before it was removed or of a less specific one, are its tags from now on. Errors: [ErrTagsExist],
// [ErrTrendTags], [ErrNotActed], store.ErrSetup if a database cannot take such tags, and those of
// tagrules.Editor.CreateTemplate.
func (t *Tags) CreateTemplate(ctx context.Context, template tagrules.Template, maxStep int64) error {
	if err := checkTemplate(template, maxStep); err != nil {
		return err
	}
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	if have, err := rules.Template(template.Pattern); err == nil && (!have.Becoming || template.Order != tagrules.Strict) { // else one broke off
		return fmt.Errorf("%w: %s", tagrules.ErrTemplateExists, template.Pattern)
	}
	if err := cmp.Or(t.store.CheckFirst(ctx), t.checkByName(ctx, template.Pattern)); err != nil {
		return err
	}
	write := func() (uint64, error) { return t.Orders.editor.CreateTemplate(ctx, template) }
	if template.Order != tagrules.Strict {
		_, err := write()
		return err
	}
	if err := t.checkTrend(ctx, rules, template); err != nil {
		return err
	}
	return t.Orders.becomeStrictWith(ctx, write)
}

// becomeStrictWith is becomeStrict for a change of the templates.
func (o *Orders) becomeStrictWith(ctx context.Context, write func() (uint64, error)) error {
	return o.becomeStrict(ctx, write, func(acted uint64) (uint64, bool, error) { return o.editor.Settle(ctx, acted) })
}

// ChangeTemplate changes a template. One becomes strict only as long as it has no tags that are not. If it was
// left unfinished how it did, that is completed. Errors: [ErrTrendTags], [ErrNotActed],
// tagrules.ErrNoTemplate, and those of tagrules.Template.Check.
func (t *Tags) ChangeTemplate(ctx context.Context, pattern string, change func(*tagrules.Template), maxStep int64) error {
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	before, after, err := changed(rules, pattern, change)
	if err != nil {
		return err
	}
	if err := checkTemplate(after, maxStep); err != nil {
		return err
	}
	write := func() (uint64, error) { return t.Orders.editor.ChangeTemplate(ctx, pattern, change) }
	if after.Order != tagrules.Strict || before.Order == tagrules.Strict && !before.Becoming {
		if _, err := write(); err != nil || after.Order != tagrules.Strict {
			return err
		}
		return t.awaitBecoming(ctx, pattern)
	}
	if err := t.checkTrend(ctx, rules, after); err != nil {
		return err
	}
	return t.Orders.becomeStrictWith(ctx, write)
}

// awaitBecoming completes that a template becomes strict, if it does. One that was strict may, since somebody
// else has changed it meanwhile.
func (t *Tags) awaitBecoming(ctx context.Context, pattern string) error {
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	if now, err := rules.Template(pattern); err != nil || !now.Becoming {
		return err
	}
	return t.Orders.becomeStrictWith(ctx, func() (uint64, error) {
		return t.Orders.editor.ChangeTemplate(ctx, pattern, func(*tagrules.Template) {})
	})
}

func changed(rules *tagrules.Rules, pattern string, change func(*tagrules.Template)) (before, after tagrules.Template, err error) {
	if before, err = rules.Template(pattern); err == nil {
		after = before
		change(&after)
	}
	return before, after, err
}

// RemoveTemplate removes a template. What came of it stays in the store. It is answered no more, unless there
// is a less specific template; if it becomes strict by that, this is waited for. A removal that broke off
// while it was is completed. Errors: [ErrNotActed], tagrules.ErrNoTemplate.
func (t *Tags) RemoveTemplate(ctx context.Context, pattern string) error {
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	heir := rules.Heir(pattern)
	inherited := heir != nil && heir.Order == tagrules.Strict
	template, err := rules.Template(pattern)
	if _, removed := rules.Removed(pattern); removed && inherited && heir.Becoming {
		return t.awaitBecoming(ctx, heir.Pattern)
	}
	if err != nil {
		return err
	}
	write := func() (uint64, error) { return t.Orders.editor.RemoveTemplate(ctx, pattern) }
	if inherited && (template.Order != tagrules.Strict || template.Becoming) {
		return t.Orders.becomeStrictWith(ctx, write)
	}
	_, err = write()
	return err
}

func checkTemplate(template tagrules.Template, maxStep int64) error {
	if err := template.Check(); err != nil {
		return err
	}
	if template.Step > maxStep {
		return fmt.Errorf("%w: step %d, allowed is 1 to %d, the largest step", tagrules.ErrTemplate, template.Step, maxStep)
	}
	return nil
}

// checkByName makes sure that no tag that was made by name matches. Those are in the directory.
func (t *Tags) checkByName(ctx context.Context, pattern string) error {
	steps, err := t.directory.Steps(ctx)
	if err != nil {
		return err
	}
	var matching []string
	for name := range steps {
		if tagrules.Matches(pattern, name) {
			matching = append(matching, name)
		}
	}
	return existing(ErrTagsExist, matching)
}

// checkTrend makes sure that a template makes no tag strict that was answered as an ordinary one. Those that
// nobody answers, since their template was removed, were strict if that was.
func (t *Tags) checkTrend(ctx context.Context, rules *tagrules.Rules, template tagrules.Template) error {
	matching, err := t.matching(ctx, template.Pattern)
	if err != nil {
		return err
	}
	removed, _ := rules.Removed(template.Pattern)
	with := rules.With(template)
	return existing(ErrTrendTags, slices.DeleteFunc(matching, func(name string) bool {
		before, after := rules.Lookup(name), with.Lookup(name)
		return before.Order == tagrules.Strict || after.Order != tagrules.Strict ||
			before.Template == nil && removed.Order == tagrules.Strict
	}))
}

// matching are the names of the tags in the store that match.
func (t *Tags) matching(ctx context.Context, pattern string) (names []string, err error) {
	list, err := t.List(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return nil, err
	}
	for _, tag := range list {
		if tagrules.Matches(pattern, tag.Name) {
			names = append(names, tag.Name)
		}
	}
	return names, nil
}

// existing is the error about tags, nil if there are none.
func existing(err error, tags []string) error {
	const most = 3
	switch n := len(tags); {
	case n == 0:
		return nil
	case n > most:
		return fmt.Errorf("%w: %s and %d more", err, strings.Join(tags[:most], ", "), n-most)
	}
	return fmt.Errorf("%w: %s", err, strings.Join(tags, ", "))
}

// Listing are the tags and the templates of an installation.
type Listing struct {
	Tags      []store.Tag // by name
	Templates []tagrules.Template
	Made      map[string]int64 // how many tags came of each template, by pattern
	Rules     *tagrules.Rules
}

// ListAll lists tags by name, and templates. With a pattern, which may be a tag, those are listed that
// match; without, those that did not come of templates. Errors as for [Tags.List].
func (t *Tags) ListAll(ctx context.Context, pattern string) (l Listing, err error) {
	if l.Rules, err = t.Orders.Rules(ctx); err != nil {
		return l, err
	}
	byName, err := t.directory.Steps(ctx)
	if err != nil {
		return l, err
	}
	list, err := t.List(ctx)
	l.Made = make(map[string]int64)
	for _, tag := range list {
		_, named := byName[tag.Name]
		made := !named && l.Rules.FromTemplate(tag.Name)
		if of := l.Rules.Lookup(tag.Name).Template; made && of != nil {
			l.Made[of.Pattern]++
		}
		if made && l.Rules.Lookup(tag.Name).Template != nil {
			tag.Step = l.Rules.Lookup(tag.Name).Template.Step // that is the one that counts
		}
		if pattern == "" && !made || pattern != "" && tagrules.Matches(pattern, tag.Name) {
			l.Tags = append(l.Tags, tag)
		}
	}
	for _, template := range l.Rules.Templates() {
		if pattern == "" || tagrules.Overlap(pattern, template.Pattern) {
			template.First = max(template.FirstID(), t.store.Lowest())
			l.Templates = append(l.Templates, template)
		}
	}
	return l, err
}
