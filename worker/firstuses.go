package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/store"
)

// firstUses is how a loader makes the tags that come of templates. A tag that was never granted, as far
// as the register shows, is made with its first reservation, if its template has room.
//
// How many tags a template has made is counted in the register, which every loader watches: the ledger
// or, in JetStream, the bucket of the counters. That is durable, costs no write, and a loader knows all
// that it has made itself. Of what other loaders make it learns as fast as its watch is. So a template may
// get more tags than it allows for, by as many as the others make in that time: by no more than the
// reservations that they have under way at a time, if the watch keeps up. A loader that does not watch
// makes no tags for templates that have a limit. Tags that were removed count, since they stay in the
// register.
type firstUses struct {
	rules knownRules
	store firstReserver

	mu        sync.Mutex
	templates map[string]*census // by pattern
}

// knownRules are the rules of tags as far as they were read.
type knownRules interface {
	Lookup(tag string) tagrules.Rule
	Revision() uint64
}

// firstReserver is the part of a store with a memory that makes tags.
type firstReserver interface {
	reserver
	ReserveFirst(ctx context.Context, tag store.Tag, n int64) (store.Segment, error)
	Known(tag string) bool
	Counted() bool
	Count(matches func(tag string) bool, done func(n int64))
}

// census is what a loader knows of the tags of one template.
type census struct {
	tags    int64 // that the register has
	coming  int64 // that are being made
	allowed float64
	since   time.Time // for the rate
}

var (
	// errNoNewTag is wrapped by the errors of a request for a tag that a template does not make.
	errNoNewTag = errors.New("no new tags")

	// errUncounted says that it is not known how many tags there are.
	errUncounted = errors.New("it is not known yet how many tags there are")

	// errOldRules says that the worker knows of a template that this loader does not know of.
	errOldRules = errors.New("the rules of tags are not read up to those of the worker")
)

// templateOf is the template of a tag that is not known yet, "" if it is, or has none.
func (f *firstUses) templateOf(tag string) string {
	template := templateOf(f.rules, tag)
	if template == "" || f.store.Known(tag) {
		return ""
	}
	return template
}

// forget has templates counted again. That they have changed may have given tags to others.
func (f *firstUses) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.templates = nil
}

// justMade is how long a loader waits when another one has made the tag. That one may not have its answer
// yet, and sees that there is a range above its own before it knows that the first one is its own. It would
// burn it, and the tag would not begin with 1. That is all that this is for: if it takes longer, the tag
// begins with a gap.
const justMade = 50 * time.Millisecond

// appeared is told of each tag that appears in the register. The register's lock is held.
func (f *firstUses) appeared(tag string) {
	template := f.rules.Lookup(tag).Template
	if template == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.templates[template.Pattern]; c != nil {
		c.tags++
	}
}

// reserve reserves n IDs for a tag that comes of a template.
func (f *firstUses) reserve(ctx context.Context, tag string, template *tagrules.Template, n int64) (store.Segment, error) {
	known := f.store.Known(tag)
	if known || template.MaxTags > 0 && !f.store.Counted() {
		segment, err := f.store.Reserve(ctx, tag, n)
		switch {
		case !errors.Is(err, store.ErrNoTag):
			return segment, err
		case !known:
			return segment, errUncounted
		}
	} else {
		c, err := f.admit(template)
		if err != nil {
			return store.Segment{}, err
		}
		defer f.settle(c)
	}
	segment, err := f.store.ReserveFirst(ctx, store.Tag{Name: tag, Step: template.Step, Next: template.FirstID()}, n)
	if errors.Is(err, store.ErrBadTag) || errors.Is(err, store.ErrUncertain) {
		return segment, fmt.Errorf("%w: %w", errNoNewTag, err) // it says nothing of the store's health
	}
	if !errors.Is(err, store.ErrTagExists) {
		return segment, err
	}
	if f.store.Counted() { // somebody has made it a moment ago, or it would be known
		pause.For(ctx, justMade)
	}
	return f.store.Reserve(ctx, tag, n)
}

// admit has a template make one more tag, unless it may not. Settle has to be called once the tag is
// made, or was not.
func (f *firstUses) admit(template *tagrules.Template) (*census, error) {
	c := f.census(template)
	f.mu.Lock()
	defer f.mu.Unlock()
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

func (f *firstUses) settle(c *census) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.coming--
}

// census returns the census of a template, and counts its tags if there is none yet.
func (f *firstUses) census(template *tagrules.Template) *census {
	f.mu.Lock()
	c := f.templates[template.Pattern]
	f.mu.Unlock()
	if c != nil {
		return c
	}
	keep := func(n int64) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if c = f.templates[template.Pattern]; c != nil {
			return
		}
		c = &census{tags: n, allowed: float64(template.NewPerSecond), since: time.Now()}
		if f.templates == nil {
			f.templates = make(map[string]*census)
		}
		f.templates[template.Pattern] = c
	}
	if template.MaxTags == 0 {
		keep(0)
		return c
	}
	f.store.Count(func(tag string) bool {
		of := f.rules.Lookup(tag).Template
		return of != nil && of.Pattern == template.Pattern
	}, keep)
	return c
}
