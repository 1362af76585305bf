package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/templates"
)

// census counts the tags of templates that have a limit, from the names in the
// register, which a loader follows once there is such a template. It counts the tags
// that this loader creates at once, and those of other loaders as their names arrive.
// So a template may get more tags than its limit, by as many as other loaders create
// meanwhile. Removed tags count.
type census struct {
	follow sync.Once
	needed chan struct{} // closed by follow, when a template has a limit
	read   chan struct{} // closed when all names have been read

	mu     sync.Mutex
	names  map[string]bool   // false while the tag is being created
	list   templates.List    // by which was counted
	counts map[string]*count // by pattern
}

// count is about the tags of one template.
type count struct {
	tags int64
	rate *rate.Limiter // of new tags
}

// firstRead is how long the first tag of a template waits until the names are read. If
// that takes longer, the worker asks again.
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

// add adds to the count of a tag's template, if there is one. The caller holds mu.
func (c *census) add(tag string, n int64) {
	if template := c.list.Find(tag); template != nil {
		if count := c.counts[template.Pattern]; count != nil {
			count.tags += n
		}
	}
}

// admit has a template with a limit create one more tag, unless it may not. A removed
// one counts already. Settle must be called afterwards.
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
		return fmt.Errorf("template %s reached %d new tags a second: %w for now", template.Pattern, template.NewPerSecond, errNoNewTag)
	}
	if !counts {
		c.names[name] = false
		n.tags++
	}
	return nil
}

// settle records whether a tag was made that was admitted. If not it does not count,
// unless it was seen meanwhile.
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

// of returns the count of a template. If there is none yet, or templates have changed,
// it counts the names. The caller holds mu.
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
