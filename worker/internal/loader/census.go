package loader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/templates"
)

// census counts the tags of templates that have a limit. The names come from
// the register, which a loader follows once there is such a template. It counts
// its own new tags at once, and those of other loaders when their names arrive.
// So concurrent loaders may exceed a template's limit by the tags they create
// in that time. Removed tags count.
type census struct {
	follow sync.Once
	needed chan struct{} // closed by follow, when a template has a limit
	read   chan struct{} // closed when all names have been read

	mu     sync.Mutex
	names  map[string]bool   // false while the tag is being created
	list   templates.List    // that counts is based on
	counts map[string]*count // by pattern
}

// count has the tags of a template.
type count struct {
	tags int64
	rate *rate.Limiter // of new tags
}

// firstRead is the time that the first tag of a template waits until the names
// are read. If that takes longer, the worker retries.
const firstRead = 100 * time.Millisecond

var errUncounted = fmt.Errorf("still counting the template's tags: %w", errNotRead)

func newCensus() *census {
	return &census{
		needed: make(chan struct{}), read: make(chan struct{}),
		names: make(map[string]bool), counts: make(map[string]*count),
	}
}

// see counts a name of the register, once.
func (c *census) see(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, counts := c.names[tag]; !counts {
		c.add(tag, 1)
	}
	c.names[tag] = true
}

// add adds to the count of a tag's template, if any. The caller holds mu.
func (c *census) add(tag string, n int64) {
	if template := c.list.Find(tag); template != nil {
		if count := c.counts[template.Pattern]; count != nil {
			count.tags += n
		}
	}
}

// admit counts a new tag of a template, or returns an error if the template's
// limits do not allow it. A removed tag counts already. The caller must call
// settle afterwards.
func (c *census) admit(ctx context.Context, name string, template *templates.Template, list templates.List) error {
	c.follow.Do(func() { close(c.needed) })
	select {
	case <-c.read:
	case <-time.After(firstRead):
		return errUncounted
	case <-ctx.Done():
		return errUncounted
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.of(template, list)
	_, counts := c.names[name]
	if most := template.MaxTags; most > 0 && !counts && n.tags >= most {
		return fmt.Errorf("template %s is full with %d of %d tags: %w", template.Pattern, n.tags, most, errNoNewTag)
	}
	if template.NewPerSecond > 0 && !n.rate.Allow() {
		return fmt.Errorf("template %s reached its new tags a second, %d: %w for now", template.Pattern, template.NewPerSecond, errNoNewTag)
	}
	if !counts {
		c.names[name] = false
		n.tags++
	}
	return nil
}

// settle records whether an admitted tag was created. If not, it does not
// count, unless it was seen during that time.
func (c *census) settle(tag string, made bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made {
		c.names[tag] = true
	} else if !c.names[tag] {
		delete(c.names, tag)
		c.add(tag, -1)
	}
}

// of returns the count of a template. If it is missing or templates have
// changed, of counts the names again. The caller holds mu.
func (c *census) of(template *templates.Template, list templates.List) *count {
	if !slices.Equal(list, c.list) {
		c.list = list
		clear(c.counts)
	}
	if n := c.counts[template.Pattern]; n != nil {
		return n
	}
	n := &count{rate: rate.NewLimiter(rate.Limit(template.NewPerSecond), int(template.NewPerSecond))}
	for tag := range c.names {
		if of := list.Find(tag); of != nil && of.Pattern == template.Pattern {
			n.tags++
		}
	}
	c.counts[template.Pattern] = n
	return n
}
