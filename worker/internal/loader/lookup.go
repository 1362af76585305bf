package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

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

// fullError is the errNoNewTag of a template that has as many tags as it may have.
type fullError struct {
	pattern    string
	tags, most int64
}

func (e *fullError) Error() string {
	return fmt.Sprintf("template %s is full with %d of %d tags: %v", e.pattern, e.tags, e.most, errNoNewTag)
}

func (e *fullError) Unwrap() error { return errNoNewTag }

func newLookup(from store.Reserver, source templateSource) *lookup {
	return &lookup{
		store: from, templates: newTemplateList(source),
		limits: limits{store: from, counts: make(map[string]*count)},
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
		made, err := l.limits.admit(ctx, name, template, list)
		if err != nil {
			return granted, err
		}
		defer made()
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
// count, and a tag that could not be created counts until the next count.
type limits struct {
	store store.Reserver

	mu     sync.Mutex
	list   templates.List    // that counts is based on
	counts map[string]*count // by pattern
}

// count has the tags of a template.
type count struct {
	pattern string
	others  []string      // the largest patterns within; their tags are not the template's
	rate    *rate.Limiter // of new tags
	making  atomic.Int64  // tags that this loader is creating

	// capacity 1; holds a token while a caller uses the fields below
	lock chan struct{}
	tags int64
	err  error // of the latest count
	at   time.Time
}

// countAge is the time for which a count is used, and the pause after one that
// failed.
const countAge = time.Second

// admit counts a new tag of a template, or returns an error if the template's
// limits do not allow it. A removed tag counts already. The caller calls made
// once it has created the tag, or has failed to.
func (l *limits) admit(ctx context.Context, name string, template *templates.Template, list templates.List) (made func(), err error) {
	n := l.of(template, list)
	if template.MaxTags > 0 && !l.store.HasEntry(name) {
		if err := l.add(ctx, n, template.MaxTags); err != nil {
			return nil, err
		}
		made = func() { n.making.Add(-1) }
	} else {
		made = func() {}
	}
	if template.NewPerSecond > 0 && !n.rate.Allow() {
		made()
		return nil, fmt.Errorf("template %s reached its new tags a second, %d: %w for now", template.Pattern, template.NewPerSecond, errNoNewTag)
	}
	return made, nil
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
			pattern: template.Pattern, lock: make(chan struct{}, 1),
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

// add adds a tag to a count, after a new count if the latest is too old. A single
// caller counts at a time, and others wait for that.
func (l *limits) add(ctx context.Context, n *count, most int64) error {
	select {
	case n.lock <- struct{}{}:
		defer func() { <-n.lock }()
	case <-ctx.Done():
		return fmt.Errorf("tags of template %s: %w: %w", n.pattern, errNotRead, ctx.Err())
	}
	if time.Since(n.at) >= countAge {
		making := n.making.Load() // the server may not count them yet
		n.tags, n.err = l.count(ctx, n)
		n.tags, n.at = n.tags+making, time.Now()
	}
	switch {
	case n.err != nil:
		return n.err
	case n.tags >= most:
		return &fullError{n.pattern, n.tags, most}
	}
	n.tags++
	n.making.Add(1)
	return nil
}

// count counts the tags of a template.
func (l *limits) count(ctx context.Context, n *count) (tags int64, err error) {
	if tags, err = l.store.Count(ctx, n.pattern); err == nil && len(n.others) > 0 {
		var others int64
		others, err = l.store.Count(ctx, n.others...)
		tags -= others
	}
	if err != nil {
		return 0, fmt.Errorf("tags of template %s: %w: %w", n.pattern, errNotRead, err)
	}
	return tags, nil
}
