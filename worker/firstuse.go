package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/idworker/idworker/store"
)

// firstUseGate says for a worker which tags come into being when they are asked for: those that match a
// template. Whether there is room for one more, loaders know. A worker cannot tell a tag that it has
// forgotten from one that somebody made up. So both are asked for, until loaders refuse too many of a
// template in a short time. Then it is shut for a moment, and what is not in memory gets 429 from here:
//
//	refusals of a template   refusalsBurst at once, and then refusalsPerSecond; after that it
//	                         is shut until there may be one again
//
// A grant costs nothing, so as long as nobody makes up names, all that exist are granted as fast as
// ever, also if the template is full.
type firstUseGate struct {
	rules knownRules
	now   func() time.Duration

	mu        sync.Mutex
	templates map[string]*refusals // by pattern

	shut atomic.Int64 // requests that were refused from here
}

// refusals are what loaders refused of one template.
type refusals struct {
	left   float64 // how many more there may be
	at     time.Duration
	reason error // of the latest
}

const (
	refusalsPerSecond = 100
	refusalsBurst     = 100
)

func newFirstUseGate(rules knownRules, now func() time.Duration) *firstUseGate {
	return &firstUseGate{rules: rules, now: now, templates: make(map[string]*refusals)}
}

// step is the allocator's Config.FirstUse.
func (g *firstUseGate) step(tag string) (int64, error) {
	template := g.rules.Lookup(tag).Template
	if template == nil {
		return 0, store.ErrNoTag
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.templates[template.Pattern]
	if r == nil {
		return template.Step, nil
	}
	r.refill(g.now())
	if r.left < 1 {
		g.shut.Add(1)
		return 0, r.reason
	}
	return template.Step, nil
}

// templateOf is the pattern of a tag's template, "" if it has none.
func templateOf(rules knownRules, tag string) string {
	if template := rules.Lookup(tag).Template; template != nil {
		return template.Pattern
	}
	return ""
}

// current is the step of a tag's template by now, 0 if it has none.
func (g *firstUseGate) current(tag string) int64 {
	if template := g.rules.Lookup(tag).Template; template != nil {
		return template.Step
	}
	return 0
}

// refused records that a loader refused to make a tag, and returns the error for those who asked.
func (g *firstUseGate) refused(tag, reason string) error {
	if reason == "" {
		reason = errNoNewTag.Error()
	}
	err := &noNewTagError{reason}
	template := g.rules.Lookup(tag).Template
	if template == nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.templates[template.Pattern]
	if r == nil {
		r = &refusals{left: refusalsBurst, at: g.now()}
		g.templates[template.Pattern] = r
	}
	r.refill(g.now())
	r.left, r.reason = max(r.left-1, -refusalsBurst), err
	return err
}

func (r *refusals) refill(now time.Duration) {
	r.left = min(refusalsBurst, r.left+refusalsPerSecond*(now-r.at).Seconds())
	r.at = now
}

// reconsider forgets what was refused: a template has changed.
func (g *firstUseGate) reconsider() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.templates)
}

// noNewTagError is an errNoNewTag in a loader's words.
type noNewTagError struct{ reason string }

func (e *noNewTagError) Error() string { return e.reason }

// Unwrap makes it an errNoNewTag.
func (e *noNewTagError) Unwrap() error { return errNoNewTag }
