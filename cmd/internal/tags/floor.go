package tags

import (
	"context"
	"fmt"

	"github.com/idworker/idworker/store"
)

// BelowTemplateError says that a tag would begin below the first ID of a template's tags. It is one of these, and
// may have come into being after the backup was taken that the store was restored from, see
// tagrules.Template.FirstID. It is a store.BelowError, too.
type BelowTemplateError struct {
	store.BelowError
	Pattern string
}

func (e *BelowTemplateError) Error() string {
	return fmt.Sprintf("%v: tags of the template %s begin at %d, and %s would begin at %d", store.ErrBelow, e.Pattern, e.Floor, e.Tag, e.First)
}

// Unwrap makes it a store.BelowError.
func (e *BelowTemplateError) Unwrap() error { return &e.BelowError }

// checkFirst makes sure that a tag begins no lower than it would if a template made it.
func (t *Tags) checkFirst(ctx context.Context, tag store.Tag) error {
	rules, err := t.Orders.Rules(ctx)
	if err != nil {
		return err
	}
	pattern, first := rules.First(tag.Name)
	if tag.Next >= first {
		return nil
	}
	if _, err := t.Find(ctx, tag.Name); err == nil {
		return t.explainExists(ctx, tag.Name, store.ErrTagExists)
	}
	return &BelowTemplateError{store.BelowError{Tag: tag.Name, First: tag.Next, Floor: first}, pattern}
}
