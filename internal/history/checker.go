package history

import (
	"errors"
	"fmt"

	"github.com/idworker/idworker/snowflake"
)

// What is wrong wraps one of these.
var (
	ErrDuplicate = errors.New("DUPLICATE")     // an ID was handed out before
	ErrOrder     = errors.New("NOT ASCENDING") // below an ID that was there when the request was sent
	ErrReply     = errors.New("NOT A REPLY")   // not what was asked for
)

// Checker finds IDs that were handed out twice, and IDs that are not in order. It is not safe for
// concurrent use.
type Checker struct {
	layout snowflake.Layout
	sets   map[string]*Set // by tag
	order  ascending
}

// NewChecker returns a checker for snowflake IDs of a layout. With the zero Layout their order is not
// looked at.
func NewChecker(layout snowflake.Layout) *Checker {
	return &Checker{layout: layout, sets: make(map[string]*Set)}
}

// Check looks at a call that was answered with IDs, and returns all that is wrong. Calls come in the order
// of their answers. By is the worker that answered, or "" if that is not known: then the order of tags that
// are not strict cannot be looked at.
func (c *Checker) Check(call *Call, by string) (wrong []error) {
	if err := call.Check(); err != nil {
		return []error{err}
	}
	wrong = c.addToSet(call)
	if key := c.orderedWith(call, by); key != "" {
		if err := c.order.add(key, call); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// Sets are the IDs that were handed out, by tag; snowflake IDs have the tag "".
func (c *Checker) Sets() map[string]*Set { return c.sets }

// addToSet finds IDs that were there before.
func (c *Checker) addToSet(call *Call) (wrong []error) {
	set := c.sets[call.Tag]
	if set == nil {
		set = new(Set)
		c.sets[call.Tag] = set
	}
	for _, r := range call.Ranges {
		if twice, ok := set.Add(r); !ok {
			wrong = append(wrong, fmt.Errorf("%w: %v: an ID of %v was handed out before, in %v", ErrDuplicate, call, r, twice))
		}
	}
	return wrong
}

// orderedWith names those calls with which a call has to be in order; empty if there are none. IDs that were
// kept in memory are in order with nothing; those of events, of which one ID each was asked for in batches,
// neither.
func (c *Checker) orderedWith(call *Call, by string) string {
	switch {
	case call.Kind == Prefetched || call.Kind == Event:
		return ""
	case call.Kind == Snowflake && c.layout.IsZero():
		return ""
	case call.Kind == Snowflake:
		id := snowflake.ID(call.first())
		return fmt.Sprintf("snowflake %d %d", c.layout.Datacenter(id), c.layout.WorkerID(id))
	case call.Kind.IsStrict():
		return call.Tag
	case by == "":
		return ""
	}
	return by + " " + call.Tag
}
