package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
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
	if errors.Is(err, store.ErrNoTag) {
		granted, err = l.create(ctx, name, wants)
	}
	if errors.Is(err, store.ErrNoTag) || errors.Is(err, errNoNewTag) {
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
