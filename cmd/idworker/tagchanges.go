package main

import (
	"fmt"

	"github.com/idworker/idworker/cmd/internal/report"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/store"
)

// changes prints what became of one tag or template after the other.
type changes struct{ *report.List[change] }

func newChanges(out output) changes { return changes{report.NewList[change](out, "changes")} }

func (c changes) add(r tags.Raised) {
	c.Add(change{Tag: r.Tag, Before: r.Before, Next: r.Now, Order: r.Order, Template: r.Template, Removed: r.Removed})
}

// change is what became of one tag, or of a template.
type change struct {
	Tag      string      `json:"tag"`                     // or the pattern of a template
	Next     int64       `json:"next,string"`             // the first ID that is not handed out
	Before   int64       `json:"before,string,omitempty"` // the same before; missing if it was made
	Order    store.Order `json:"order,omitempty"`         // if it was imported
	Template bool        `json:"template,omitempty"`
	Removed  bool        `json:"removed,omitempty"` // there is no such tag, but one that is created begins there
}

// String is a line for people.
func (c change) String() string {
	order := ""
	if c.Order == store.Strict {
		order = ", strict"
	}
	switch {
	case c.Template:
		return fmt.Sprintf("created template %s%s", c.Tag, order)
	case c.Removed:
		return fmt.Sprintf("removed tag %s: can be created again with --first %d or above", c.Tag, c.Next)
	case c.Before == 0:
		return fmt.Sprintf("created tag %s: next ID %d%s", c.Tag, c.Next, order)
	case c.Next == c.Before:
		return fmt.Sprintf("tag %s: next ID %d, as it was%s", c.Tag, c.Next, order)
	}
	return fmt.Sprintf("tag %s: next ID %d, was %d%s", c.Tag, c.Next, c.Before, order)
}
