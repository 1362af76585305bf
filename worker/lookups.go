package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/store"
)

// lookups is the part of a loader that reserves for tags that it has not reserved for
// before. The tag may be in the store, a template may create it, or there is none.
//
// Names can be made up. So names that prove not to exist are limited: missesBurst at
// once, and then missesPerSecond. After that no unknown name reaches the store until
// there may be a miss again, and workers refuse unknown names by themselves for
// missPause. Tags that exist cost nothing.
//
// How many tags a template with a limit has is counted from the names in the register,
// which a loader follows once there is such a template. It counts the tags that it
// creates itself at once, and those of other loaders as they arrive. So a template may
// get more tags than its limit, by as many as other loaders create meanwhile. Removed
// tags count.
type lookups struct {
	store         lookupStore
	readTemplates func(context.Context) (templates.List, error)

	list     atomic.Pointer[templates.List] // as it was read
	reading  sync.Mutex                     // held while the templates are read
	readAt   time.Time
	readable error

	mu      sync.Mutex
	misses  bucket
	names   map[string]struct{} // of all tags, once they are followed
	needed  chan struct{}       // closed when a template has a limit
	read    chan struct{}       // closed once names is complete for the first time
	follows bool
	counted bool               // names is complete, and has been since
	census  map[string]*census // by pattern
}

// lookupStore is the part of a store that reserves.
type lookupStore interface {
	Lookup(ctx context.Context, tag string) (store.Tag, error)
	Reserve(ctx context.Context, tag string, n int64) (store.Grant, error)
	ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Grant, error)
	Known(tag string) bool
	Names(ctx context.Context, see func(tag string), current func()) error
}

// census counts the tags of one template.
type census struct {
	tags   int64 // that the register has
	coming int64 // that are being created
	rate   bucket
}

// bucket is a token bucket.
type bucket struct {
	left float64
	at   time.Time
}

// refill adds the tokens of the time that has passed, and reports whether there is one.
func (b *bucket) refill(rate, most float64) bool {
	now := time.Now()
	b.left = min(most, b.left+rate*now.Sub(b.at).Seconds())
	b.at = now
	return b.left >= 1
}

const (
	missesPerSecond = 1000
	missesBurst     = 1000
	missPause       = 50 * time.Millisecond

	// templatesAge is how old the list of templates may be that a loader goes by.
	templatesAge = time.Second

	followAgain = 500 * time.Millisecond

	// firstRead is how long the first tag of a template waits until the names are read. If that
	// takes longer, its load is tried again later.
	firstRead = 100 * time.Millisecond
)

var (
	// errNoNewTag is wrapped by the errors of a request for a tag that is not looked up, or that
	// a template does not create.
	errNoNewTag = errors.New("no new tags")

	errTooManyMisses = fmt.Errorf("too many requests for tags that do not exist: %w for now", errNoNewTag)

	// errNotRead says that there is no such tag, and that it is not known yet whether one may
	// be created.
	errNotRead = errors.New("not read yet")

	errUncounted = fmt.Errorf("the tags of the template are being counted: %w", errNotRead)
)

func newLookups(from lookupStore, read func(context.Context) (templates.List, error)) *lookups {
	return &lookups{
		store: from, readTemplates: read, misses: bucket{left: missesBurst, at: time.Now()},
		names: make(map[string]struct{}), needed: make(chan struct{}), read: make(chan struct{}), census: make(map[string]*census),
	}
}

// reserve reserves for a tag, as many IDs as size returns for it. A tag that a worker knows
// was there, so it is always looked up.
func (f *lookups) reserve(ctx context.Context, name string, known bool, size func(store.Tag) int64) (tag store.Tag, grant store.Grant, err error) {
	known = known || f.store.Known(name)
	if !known && !f.mayMiss() {
		return tag, grant, errTooManyMisses
	}
	tag, err = f.store.Lookup(ctx, name)
	if err == nil {
		grant, err = f.store.Reserve(ctx, name, size(tag))
	}
	if errors.Is(err, store.ErrNoTag) {
		tag, grant, err = f.create(ctx, name, size)
	}
	if !known && (errors.Is(err, store.ErrNoTag) || errors.Is(err, errNoNewTag)) {
		f.miss()
	}
	tag.Order = grant.Order // which is that of the entry
	return tag, grant, err
}

func (f *lookups) mayMiss() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.misses.refill(missesPerSecond, missesBurst)
}

func (f *lookups) miss() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.misses.left = max(f.misses.left-1, -missesBurst)
}

// create creates a tag with its first reservation, if a template says so and has room.
func (f *lookups) create(ctx context.Context, name string, size func(store.Tag) int64) (tag store.Tag, grant store.Grant, err error) {
	list, err := f.templates(ctx)
	if err != nil {
		return tag, grant, err
	}
	template := list.Find(name)
	if template == nil {
		return tag, grant, store.ErrNoTag
	}
	c, err := f.admit(name, template, list)
	if errors.Is(err, errUncounted) {
		select {
		case <-f.read:
			c, err = f.admit(name, template, list)
		case <-ctx.Done():
		case <-time.After(firstRead):
		}
	}
	if err != nil {
		return tag, grant, err
	}
	tag = store.Tag{Name: name, Step: template.Step, Next: template.FirstID(), Order: template.Order}
	grant, err = f.store.ReserveFirst(ctx, tag, size(tag))
	f.settle(c, name, err == nil)
	switch {
	case errors.Is(err, store.ErrTagExists): // another loader was faster
		if tag, err = f.store.Lookup(ctx, name); err == nil {
			grant, err = f.store.Reserve(ctx, name, size(tag))
		}
	case errors.Is(err, store.ErrBadTag), errors.Is(err, store.ErrCorrupt):
		err = fmt.Errorf("%w: %w", errNoNewTag, err) // which is no evidence about the store
	}
	return tag, grant, err
}

// templates returns the templates, as of a second ago at most. While they cannot be read,
// those that were read before count.
func (f *lookups) templates(ctx context.Context) (templates.List, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if time.Since(f.readAt) < templatesAge {
		return f.lastTemplates(), f.readable
	}
	began := time.Now()
	list, err := f.readTemplates(ctx)
	f.readAt = time.Now()
	switch {
	case err == nil:
		f.readAt = began
		before := f.list.Swap(&list)
		if before != nil && !slices.Equal(list, *before) {
			f.mu.Lock()
			clear(f.census)
			f.mu.Unlock()
		}
		f.readable = nil
	case f.list.Load() == nil:
		f.readable = fmt.Errorf("templates: %w: %w", errNotRead, err)
	}
	return f.lastTemplates(), f.readable
}

// lastTemplates returns the templates as they were read last.
func (f *lookups) lastTemplates() templates.List {
	if list := f.list.Load(); list != nil {
		return *list
	}
	return nil
}

// run follows the names of tags, once a template needs them, until ctx ends.
func (f *lookups) run(ctx context.Context, log *zap.Logger) {
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

func (f *lookups) setCounted(counted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted = counted
}

// seen counts a name, once.
func (f *lookups) seen(tag string) {
	template := f.lastTemplates().Find(tag)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.names[tag]; known {
		return
	}
	f.names[tag] = struct{}{}
	if template != nil {
		if c := f.census[template.Pattern]; c != nil {
			c.tags++
		}
	}
}

// isLimited reports whether the names of a template's tags have to be followed.
func isLimited(template *templates.Template) bool {
	return template.MaxTags > 0 || template.NewPerSecond > 0
}

// admit has a template create one more tag, unless it may not. A removed one counts already.
// Settle has to be called afterwards.
func (f *lookups) admit(name string, template *templates.Template, list templates.List) (*census, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isLimited(template) && !f.counted {
		if !f.follows {
			f.follows = true
			close(f.needed)
		}
		return nil, errUncounted
	}
	c := f.count(template, list)
	_, counts := f.names[name]
	if most := template.MaxTags; most > 0 && !counts && c.tags+c.coming >= most {
		return nil, fmt.Errorf("template %s is full, it has %d of %d tags: %w", template.Pattern, c.tags, most, errNoNewTag)
	}
	if rate := float64(template.NewPerSecond); rate > 0 {
		if !c.rate.refill(rate, rate) {
			return nil, fmt.Errorf("template %s has made its %d new tags a second: %w for now", template.Pattern, template.NewPerSecond, errNoNewTag)
		}
		c.rate.left--
	}
	c.coming++
	return c, nil
}

func (f *lookups) settle(c *census, tag string, made bool) {
	f.mu.Lock()
	follows := f.follows
	f.mu.Unlock()
	if made && follows {
		f.seen(tag)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.coming-- // not before the tag is counted
}

// count returns the census of a template, and counts its tags if there is none yet. The
// caller holds mu.
func (f *lookups) count(template *templates.Template, list templates.List) *census {
	if c := f.census[template.Pattern]; c != nil {
		return c
	}
	c := &census{rate: bucket{float64(template.NewPerSecond), time.Now()}}
	for tag := range f.names {
		if of := list.Find(tag); of != nil && of.Pattern == template.Pattern {
			c.tags++
		}
	}
	f.census[template.Pattern] = c
	return c
}
