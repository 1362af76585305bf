package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// firstUses is how a loader makes the tags of templates, each with its first reservation
// and if its template has room.
//
// How many tags a template with a limit has is counted from the names in the register,
// which a loader follows once there is such a template. It counts the tags that it makes
// itself at once, and those of other loaders as they arrive. So a template may get more
// tags than its limit, by as many as other loaders make meanwhile. Removed tags count.
type firstUses struct {
	rules knownRules
	store firstReserver

	mu        sync.Mutex
	names     map[string]struct{} // of all tags, once they are followed
	followed  bool                // a template needs them
	needed    chan struct{}       // is closed with that
	read      chan struct{}       // is closed once names is complete for the first time
	counted   bool                // names is complete, and has been since
	templates map[string]*census  // by pattern
}

// knownRules are the rules of tags as far as they were read.
type knownRules interface {
	Lookup(tag string) tagrules.Rule
	Revision() uint64
}

// firstReserver is the part of a store that makes tags.
type firstReserver interface {
	reserver
	ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error)
	Known(tag string) bool
	Names(ctx context.Context, see func(tag string), current func()) error
}

// census counts the tags of one template.
type census struct {
	tags    int64 // that the register has
	coming  int64 // that are being made
	allowed float64
	since   time.Time // for the rate
}

var (
	// errNoNewTag is wrapped by the errors of a request for a tag that a template does not make.
	errNoNewTag = errors.New("no new tags")

	// errUncounted says that the names of the tags are not read yet.
	errUncounted = errors.New("the tags of the template are being counted")

	// errOldRules says that the worker knows of a template that this loader has not read.
	errOldRules = errors.New("the rules of tags are not read up to those of the worker")
)

func newFirstUses(rules knownRules, from firstReserver) *firstUses {
	return &firstUses{rules: rules, store: from, names: make(map[string]struct{}),
		needed: make(chan struct{}), read: make(chan struct{})}
}

const (
	followAgain = 500 * time.Millisecond

	// firstRead is how long the first tag of a template waits until the names are read. If that takes
	// longer, its load is tried again later.
	firstRead = 100 * time.Millisecond
)

// run follows the names of tags, once a template needs them, until ctx ends.
func (f *firstUses) run(ctx context.Context, log *zap.Logger) {
	select {
	case <-ctx.Done():
	case <-f.needed:
	}
	failing := false
	read := sync.OnceFunc(func() { close(f.read) })
	for ctx.Err() == nil {
		err := f.store.Names(ctx, f.seen, func() { f.setCounted(true); read(); failing = false })
		f.setCounted(false)
		if ctx.Err() == nil && !failing {
			log.Warn("following tag names failed", zap.Error(err))
		}
		failing = true
		pause.For(ctx, followAgain)
	}
}

func (f *firstUses) isFollowed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.followed
}

func (f *firstUses) setCounted(counted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted = counted
}

// seen counts a name, once.
func (f *firstUses) seen(tag string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.names[tag]; known {
		return
	}
	f.names[tag] = struct{}{}
	if template := f.rules.Lookup(tag).Template; template != nil {
		if c := f.templates[template.Pattern]; c != nil {
			c.tags++
		}
	}
}

// templateOf is the template of a tag that this loader has not reserved for, or "".
func (f *firstUses) templateOf(tag string) string {
	template := templateOf(f.rules, tag)
	if template == "" || f.store.Known(tag) {
		return ""
	}
	return template
}

// forget has templates counted again: a change may have given tags to others.
func (f *firstUses) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.templates = nil
}

// reserve reserves n IDs for a tag of a template. Where a template has limits, names that
// are not in the register do not reach the store.
func (f *firstUses) reserve(ctx context.Context, tag string, template *tagrules.Template, n int64) (store.Segment, error) {
	if f.store.Known(tag) || f.mayExist(tag, template) {
		segment, err := f.store.Reserve(ctx, tag, n)
		if !errors.Is(err, store.ErrNoTag) {
			return segment, err
		}
	}
	c, err := f.admit(template)
	if errors.Is(err, errUncounted) {
		select {
		case <-f.read:
			c, err = f.admit(template)
		case <-ctx.Done():
		case <-time.After(firstRead):
		}
	}
	if err != nil {
		return store.Segment{}, err
	}
	segment, err := f.store.ReserveFirst(ctx, store.Tag{Name: tag, Step: template.Step, Next: template.FirstID()}, n)
	f.settle(c, tag, err == nil)
	switch {
	case errors.Is(err, store.ErrBadTag), errors.Is(err, store.ErrCorrupt):
		return segment, fmt.Errorf("%w: %w", errNoNewTag, err) // it says nothing of the store's health
	case errors.Is(err, store.ErrTagExists):
		return f.store.Reserve(ctx, tag, n)
	}
	return segment, err
}

// isLimited reports whether the names of a template's tags have to be followed.
func isLimited(template *tagrules.Template) bool {
	return template.MaxTags > 0 || template.NewPerSecond > 0
}

// mayExist reports whether the tag of a template with limits may be one that exists.
func (f *firstUses) mayExist(tag string, template *tagrules.Template) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, named := f.names[tag]
	return isLimited(template) && (named || !f.counted)
}

// admit has a template make one more tag, unless it may not. Settle has to be called
// afterwards.
func (f *firstUses) admit(template *tagrules.Template) (*census, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isLimited(template) && !f.counted {
		if !f.followed {
			f.followed = true
			close(f.needed)
		}
		return nil, errUncounted
	}
	c := f.census(template)
	if most := template.MaxTags; most > 0 && c.tags+c.coming >= most {
		return nil, fmt.Errorf("template %s is full, it has %d of %d tags: %w", template.Pattern, c.tags, most, errNoNewTag)
	}
	if rate := float64(template.NewPerSecond); rate > 0 {
		now := time.Now()
		c.allowed = min(rate, c.allowed+rate*now.Sub(c.since).Seconds())
		c.since = now
		if c.allowed < 1 {
			return nil, fmt.Errorf("template %s has made its %d new tags a second: %w for now", template.Pattern, template.NewPerSecond, errNoNewTag)
		}
		c.allowed--
	}
	c.coming++
	return c, nil
}

func (f *firstUses) settle(c *census, tag string, made bool) {
	if made && f.isFollowed() {
		f.seen(tag)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.coming--
}

// census returns the census of a template, and counts its tags if there is none yet. The
// caller holds the lock.
func (f *firstUses) census(template *tagrules.Template) *census {
	if c := f.templates[template.Pattern]; c != nil {
		return c
	}
	c := &census{allowed: float64(template.NewPerSecond), since: time.Now()}
	for tag := range f.names {
		if of := f.rules.Lookup(tag).Template; of != nil && of.Pattern == template.Pattern {
			c.tags++
		}
	}
	if f.templates == nil {
		f.templates = make(map[string]*census)
	}
	f.templates[template.Pattern] = c
	return c
}
