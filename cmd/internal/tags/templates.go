package tags

import (
	"cmp"
	"context"

	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/store"
)

// Templates returns the templates. New tags begin no lower than the store
// allows.
func (t *Tags) Templates(ctx context.Context) (templates.List, error) {
	list, err := templates.Read(ctx, t.js, t.prefix)
	for i := range list { // it is ours
		list[i].First = max(list[i].FirstID(), t.store.Lowest())
	}
	return list, err
}

// CreateTemplate adds a template. Errors: store.ErrSetup if a database cannot
// take tags of any name, and those of templates.Create.
func (t *Tags) CreateTemplate(ctx context.Context, template templates.Template) error {
	if err := cmp.Or(template.Check(), t.store.CheckFirst(ctx)); err != nil {
		return err
	}
	return templates.Create(ctx, t.js, t.prefix, template)
}

// ChangeTemplate changes a template for the tags that come into being
// afterwards. Errors are those of templates.Change.
func (t *Tags) ChangeTemplate(ctx context.Context, pattern string, change func(*templates.Template)) error {
	return templates.Change(ctx, t.js, t.prefix, pattern, change)
}

// RemoveTemplate removes a template. Its tags stay. Errors:
// templates.ErrNoTemplate.
func (t *Tags) RemoveTemplate(ctx context.Context, pattern string) error {
	return templates.Remove(ctx, t.js, t.prefix, pattern)
}

// Listing is the tags and the templates of an installation.
type Listing struct {
	Tags      []store.Tag // by name
	Templates templates.List
	Made      map[string]int64 // how many tags each template counts for, by pattern
}

// ListAll lists tags by name, and templates: with a pattern, which may be a
// tag, those that match; without, all but the tags that match a template.
// Errors as for [Tags.List].
func (t *Tags) ListAll(ctx context.Context, pattern string) (l Listing, err error) {
	all, err := t.Templates(ctx)
	if err != nil {
		return l, err
	}
	list, err := t.List(ctx)
	l.Made = make(map[string]int64)
	for _, tag := range list {
		of := all.Find(tag.Name)
		if of != nil {
			l.Made[of.Pattern]++
		}
		if pattern == "" && of == nil || pattern != "" && templates.Matches(pattern, tag.Name) {
			l.Tags = append(l.Tags, tag)
		}
	}
	for _, template := range all {
		if pattern == "" || templates.Overlap(pattern, template.Pattern) {
			l.Templates = append(l.Templates, template)
		}
	}
	return l, err
}
