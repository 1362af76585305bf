package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/templates"
)

// lookup reserves for tags that are new to this loader and to the worker. Such a
// tag is in the store, or a template creates it, or it does not exist.
//
// Callers can make names up, so names that prove not to exist are limited:
// missesBurst at once, then missesPerSecond. Above that, no unknown name
// reaches the store until another miss is allowed, and workers refuse unknown
// names for missPause on their own. Tags that exist cost nothing.
type lookup struct {
	store     store.Reserver
	templates *templateList
	census    *census
	misses    *rate.Limiter
}

const (
	missesPerSecond = 1000
	missesBurst     = 1000
	missPause       = 50 * time.Millisecond

	// templatesAge bounds the age of a loader's list of templates.
	templatesAge = time.Second

	// namesAgain is the pause before names are read again.
	namesAgain = 500 * time.Millisecond
)

var (
	// errNoNewTag is wrapped by the errors for a tag that is not looked up, or
	// that a template does not create.
	errNoNewTag = errors.New("no new tags")

	errTooManyMisses = fmt.Errorf("too many requests for tags that do not exist: %w for now", errNoNewTag)

	// errNotRead means that there is no such tag, and that the loader has not
	// yet read whether it may create it.
	errNotRead = errors.New("not read yet")
)

func newLookup(from store.Reserver, source templateSource) *lookup {
	return &lookup{
		store: from, templates: newTemplateList(source), census: newCensus(),
		misses: rate.NewLimiter(missesPerSecond, missesBurst),
	}
}

// reserve reserves for a tag that neither this loader nor the worker has
// reserved for: it is in the store, or a template creates it, or it does not
// exist.
func (l *lookup) reserve(ctx context.Context, name string, wants []store.Want) (store.Reservation, error) {
	if l.misses.Tokens() < 1 {
		return store.Reservation{}, errTooManyMisses
	}
	granted, err := l.store.Reserve(ctx, name, wants)
	unmade := errors.Is(err, store.ErrNoTag)
	if unmade {
		granted, err = l.create(ctx, name, wants)
	}
	if errors.Is(err, store.ErrNoTag) || errors.Is(err, errNoNewTag) || unmade && errors.Is(err, store.ErrStrict) {
		l.misses.Reserve()
	}
	return granted, err
}

// create creates a tag with its first reservation, if a template allows it and
// has room.
func (l *lookup) create(ctx context.Context, name string, wants []store.Want) (granted store.Reservation, err error) {
	list, err := l.templates.get(ctx)
	if err != nil {
		return granted, err
	}
	template := list.Find(name)
	if template == nil {
		return granted, store.ErrNoTag
	}
	if template.MaxTags > 0 || template.NewPerSecond > 0 {
		if err := l.census.admit(ctx, name, template, list); err != nil {
			return granted, err
		}
		defer func() { l.census.settle(name, err == nil) }()
	}
	tag := store.Tag{Name: name, Step: template.Step, Next: template.FirstID(), Order: template.Order, Earliest: template.Earliest(name)}
	granted, err = l.store.ReserveFirst(ctx, tag, wants)
	switch {
	case errors.Is(err, store.ErrTagExists): // another loader was faster
		return l.store.Reserve(ctx, name, wants)
	case errors.Is(err, store.ErrBadTag), errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrNoRoom):
		// This is no evidence about the store.
		err = fmt.Errorf("%w: %w", errNoNewTag, err)
	}
	return granted, err
}

// run reads tag names until ctx ends, once a template needs them.
func (l *lookup) run(ctx context.Context, log *zap.Logger) {
	select {
	case <-ctx.Done():
	case <-l.census.needed:
	}
	var once sync.Once
	for failing := false; ctx.Err() == nil; failing = true {
		err := l.store.Names(ctx, l.census.see, func() {
			once.Do(func() { close(l.census.read) })
			failing = false
		})
		if ctx.Err() == nil && !failing {
			log.Warn("cannot follow tag names, retrying", zap.Error(err))
		}
		pause.For(ctx, namesAgain)
	}
}

// templateSource reads templates.
type templateSource interface {
	read(ctx context.Context) (templates.List, error)
}

// storedTemplates are the templates in the config bucket.
type storedTemplates struct {
	js     jetstream.JetStream
	prefix messages.Prefix
}

func (s storedTemplates) read(ctx context.Context) (templates.List, error) {
	return templates.Read(ctx, s.js, s.prefix)
}

// templateList is the list of templates, at most templatesAge old. While it
// cannot be read, the previous list counts.
type templateList struct {
	source templateSource
	// capacity 1; holds a token while a caller uses the fields below
	lock chan struct{}
	at   time.Time // of the latest read
	list templates.List
	err  error // nil once there was a list
}

func newTemplateList(source templateSource) *templateList {
	return &templateList{source: source, lock: make(chan struct{}, 1), err: errNotRead}
}

// get returns the list. A single caller reads it at a time, and others wait for
// that.
func (t *templateList) get(ctx context.Context) (templates.List, error) {
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return nil, fmt.Errorf("templates: %w: %w", errNotRead, ctx.Err())
	}
	if time.Since(t.at) >= templatesAge {
		list, err := t.source.read(ctx)
		switch {
		case err == nil:
			t.list, t.err = list, nil
		case t.err != nil:
			t.err = fmt.Errorf("templates: %w: %w", errNotRead, err)
		}
		t.at = time.Now()
	}
	return t.list, t.err
}

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
