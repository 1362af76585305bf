package tags

import (
	"fmt"

	"github.com/idworker/idworker/store"
)

// Change is the change of a tag or a template.
type Change struct {
	// Or a template's pattern.
	Tag string `json:"tag"`
	// The first ID that was not issued.
	Next int64 `json:"next,string"`
	// Next before the change; missing if the tag was created.
	Before   int64       `json:"before,string,omitempty"`
	Order    store.Order `json:"order,omitempty"`    // of an import
	Template bool        `json:"template,omitempty"` // a created template
	// The tag does not exist; if created, it would begin at Next.
	Removed bool `json:"removed,omitempty"`

	Moved bool `json:"-"` // to another store, not created
}

// String formats the change as a line.
func (c Change) String() string {
	order, created := "", "created"
	if c.Order == store.Strict {
		order = ", strict"
	}
	if c.Moved {
		created = "moved"
	}
	switch {
	case c.Template:
		return fmt.Sprintf("created template %s%s", c.Tag, order)
	case c.Removed:
		return fmt.Sprintf("removed tag %s: can be created again with --first %d or above", c.Tag, c.Next)
	case c.Before == 0:
		return fmt.Sprintf("%s tag %s: next ID %d%s", created, c.Tag, c.Next, order)
	case c.Next == c.Before:
		return fmt.Sprintf("tag %s: next ID %d, unchanged%s", c.Tag, c.Next, order)
	}
	return fmt.Sprintf("tag %s: next ID %d, was %d%s", c.Tag, c.Next, c.Before, order)
}
