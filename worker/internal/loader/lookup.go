package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/subject"
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
	limits    limits
	misses    *rate.Limiter
}

const (
	missesPerSecond = 1000
	missesBurst     = 1000
	missPause       = 50 * time.Millisecond

	// templatesAge bounds the age of a loader's list of templates.
	templatesAge = time.Second
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

// newLookup returns a lookup that counts tags in goroutines of a group.
func newLookup(from store.Reserver, source templateSource, counting *goroutines.Group) *lookup {
	return &lookup{
		store: from, templates: newTemplateList(source),
		limits: limits{store: from, counting: counting, counts: make(map[string]*count)},
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
		settle, refused := l.limits.admit(ctx, name, template, list)
		if refused != nil {
			return granted, refused
		}
		defer func() { settle(err == nil) }()
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

// limits keeps the limits of templates. The server of the register counts the tags
// of a template, and the loader adds those that it creates itself. A count is
// used for a second, and a lagging replica may have made it, so loaders may exceed
// a template's limit by the tags that they create in that time. Removed tags
// count.
type limits struct {
	store    store.Reserver
	counting *goroutines.Group

	mu     sync.Mutex
	list   templates.List    // that counts is based on
	counts map[string]*count // by pattern
}

// count has the tags of a template.
type count struct {
	pattern string
	others  []string // the largest patterns within; their tags are not the template's

	tags    int64 // by the latest count
	made    int64 // by this loader, since that count began
	making  int64 // by this loader at present
	err     error // nil if the latest count succeeded
	at      time.Time
	running chan struct{} // closed at the end of the present count; nil if there is none

	rate *rate.Limiter // of new tags
}

const (
	// countAge is the time for which a count is used, and the pause after one
	// that failed.
	countAge = time.Second

	// firstRead is the time that a new tag waits for a count. If the count takes
	// longer, the previous one is used; if there is none, the worker retries.
	firstRead = 100 * time.Millisecond
)

var errUncounted = fmt.Errorf("still counting the template's tags: %w", errNotRead)

// admit counts a new tag of a template, or returns an error if the template's
// limits do not allow it. A removed tag counts already. The caller must call
// settle afterwards, and report whether the tag was created. If that is unknown,
// the next count finds out.
func (l *limits) admit(ctx context.Context, name string, template *templates.Template, list templates.List) (settle func(made bool), err error) {
	n, most, more := l.of(template, list), template.MaxTags, int64(0)
	if most > 0 && !l.store.HasEntry(name) {
		more = 1
		l.recount(ctx, n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tags := n.tags + n.made + n.making
	switch {
	case more > 0 && n.err != nil:
		return nil, n.err
	case more > 0 && tags >= most:
		return nil, fmt.Errorf("template %s is full with %d of %d tags: %w", template.Pattern, tags, most, errNoNewTag)
	case template.NewPerSecond > 0 && !n.rate.Allow():
		return nil, fmt.Errorf("template %s reached its new tags a second, %d: %w for now", template.Pattern, template.NewPerSecond, errNoNewTag)
	}
	n.making += more
	return func(made bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		n.making -= more
		if made {
			n.made += more
		}
	}, nil
}

// of returns the count of a template, a new one if templates have changed.
func (l *limits) of(template *templates.Template, list templates.List) *count {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(list, l.list) {
		l.list = list
		clear(l.counts)
	}
	n := l.counts[template.Pattern]
	if n == nil {
		n = &count{
			pattern: template.Pattern, err: errUncounted,
			rate: rate.NewLimiter(rate.Limit(template.NewPerSecond), int(template.NewPerSecond)),
		}
		for _, other := range slices.Backward(list) { // the largest first
			covers := func(pattern string) bool { return subject.Covers(pattern, other.Pattern) }
			if other.Pattern != n.pattern && covers(n.pattern) && !slices.ContainsFunc(n.others, covers) {
				n.others = append(n.others, other.Pattern)
			}
		}
		l.counts[template.Pattern] = n
	}
	return n
}

// recount begins a count if the latest one is too old, and waits for the one
// that is running.
func (l *limits) recount(ctx context.Context, n *count) {
	l.mu.Lock()
	if n.running == nil && time.Since(n.at) >= countAge {
		n.running = make(chan struct{})
		l.counting.Start(func(ctx context.Context) { l.count(ctx, n) })
	}
	running := n.running
	l.mu.Unlock()
	if running == nil {
		return
	}
	select {
	case <-running:
	case <-time.After(firstRead):
	case <-ctx.Done():
	}
}

// count counts the tags of a template. Those that this loader creates meanwhile
// are added, whether or not the server has counted them.
func (l *limits) count(ctx context.Context, n *count) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	l.mu.Lock()
	before := n.made
	l.mu.Unlock()
	var others int64
	var err error
	if len(n.others) > 0 {
		others, err = l.store.Count(ctx, n.others...)
	}
	var all int64
	if err == nil {
		all, err = l.store.Count(ctx, n.pattern)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		n.tags, n.made, n.err = all-others, n.made-before, nil
	} else {
		n.err = fmt.Errorf("tags of template %s: %w: %w", n.pattern, errNotRead, err)
	}
	n.at = time.Now()
	close(n.running)
	n.running = nil
}
