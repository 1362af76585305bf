package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/internal/register"
)

// Guard is a store with a memory. What is not said here is that of the store within.
type Guard struct {
	store.Store
	register store.Register // nil if there is none
	log      *zap.Logger
	episodes register.Episodes
	wentBack struct{ store, register atomic.Int64 }

	mu       sync.Mutex
	tags     map[string]*memory
	pass     int    // how many times the watch was opened
	latest   uint64 // the highest revision that was seen
	complete bool   // every mark of the register was seen, and has been since
	counted  bool   // and the register is being watched

	// Appeared is called with a lock held when a tag becomes known, see [Guard.Known]. It is to be set
	// before Run.
	Appeared func(tag string)
	hold     hold

	alarm chan struct{} // somebody has to look
}

// memory is what is known of one tag.
type memory struct {
	floor int64 // everything below was given away, as somebody said

	// As the register has it.
	written  int64  // the highest end
	current  int64  // the end of the latest mark
	revision uint64 // of the latest mark
	step     int64
	pass     int    // in which the latest mark was seen
	own      uint64 // the revision of what this process wrote last
	appeared bool   // and was told of
}

var _ store.Store = (*Guard)(nil)

// New puts a memory in front of a store. If the store is a [store.Register], [Guard.Run]
// watches it. The name is the store's, for the log.
func New(inner store.Store, name string, log *zap.Logger) *Guard {
	if log == nil {
		log = zap.NewNop()
	}
	g := &Guard{Store: inner, log: log.With(zap.String("store", name)), tags: make(map[string]*memory), alarm: make(chan struct{}, 1)}
	g.register, _ = inner.(store.Register)
	return g
}

// Learn says that everything below end was given away.
func (g *Guard) Learn(tag string, end int64) {
	if end <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.memory(tag)
	m.floor = max(m.floor, end)
}

// memory returns what is known of a tag. The caller holds the lock.
func (g *Guard) memory(tag string) *memory {
	m := g.tags[tag]
	if m == nil {
		m = new(memory)
		g.tags[tag] = m
	}
	return m
}

// recall returns what is known of a tag, and the highest revision of any that was seen.
func (g *Guard) recall(tag string) (m memory, latest uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.tags[tag]; known != nil {
		m = *known
	}
	return m, g.latest
}

func (g *Guard) floor(tag string) int64 {
	m, _ := g.recall(tag)
	return m.floor
}

// checkWrite looks at the revision of what this process has just written for a tag: a register
// that did not go back gives it one that is higher than all that were seen before the write.
func (g *Guard) checkWrite(tag string, before memory, latest uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.tags[tag]
	if m == nil || m.own == before.own || m.own > latest {
		return
	}
	g.hold.begin()
	select {
	case g.alarm <- struct{}{}:
	default: // it rings
	}
}

// reserveAttempts bounds how often a range that lies below is burnt in one call.
const reserveAttempts = 8

var errBelow = errors.New("the store returns IDs that were given away")

// Reserve implements [store.Store], see the package's doc. The ranges that it burns are gaps.
func (g *Guard) Reserve(ctx context.Context, tag string, step int64) (store.Segment, error) {
	var seg store.Segment
	for range reserveAttempts {
		if err := g.checkHold(); err != nil {
			return store.Segment{}, fmt.Errorf("tag %s: %w", tag, err)
		}
		before, latest := g.recall(tag)
		var err error
		if seg, err = g.Store.Reserve(ctx, tag, step); err != nil {
			return store.Segment{}, err
		}
		g.checkWrite(tag, before, latest)
		if g.admit(tag, seg) {
			return seg, nil
		}
		if before.floor > seg.First {
			g.reportStore(tag, seg, before.floor)
			if err := g.Store.Raise(ctx, tag, before.floor); err != nil {
				return store.Segment{}, fmt.Errorf("tag %s: %w: %v, and all below %d was; raise it: %w", tag, errBelow, seg, before.floor, err)
			}
		}
	}
	return store.Segment{}, fmt.Errorf("tag %s: %w: %v, and all below %d was, %d times in a row", tag, errBelow, seg, g.floor(tag), reserveAttempts)
}

// admit reports whether a range lies above all that is known to have been given away, and then
// counts it as given away.
func (g *Guard) admit(tag string, seg store.Segment) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.memory(tag)
	if m.floor > seg.First || g.hold.on() {
		return false
	}
	m.floor = seg.End
	return true
}

func (g *Guard) reportStore(tag string, seg store.Segment, floor int64) {
	g.wentBack.store.Add(1)
	if g.episodes.Begins(tag) {
		g.log.Error("the store went back: it returned IDs that were given away before; they are not granted again, and it is being raised",
			zap.String("tag", tag), zap.Stringer("returned", seg), zap.Int64("granted_below", floor))
	}
}

// CreateTag implements [store.Store]. A tag that begins below its floor is a store.BelowError.
func (g *Guard) CreateTag(ctx context.Context, tag store.Tag) error {
	floor := g.floor(tag.Name)
	if tag.Check() != nil || tag.Next >= floor {
		return g.Store.CreateTag(ctx, tag)
	}
	switch err := g.Store.Raise(ctx, tag.Name, 1); {
	case err == nil:
		return fmt.Errorf("tag %s: %w", tag.Name, store.ErrTagExists)
	case !errors.Is(err, store.ErrNoTag):
		return err
	}
	return &store.BelowError{Tag: tag.Name, First: tag.Next, Floor: floor}
}

// Raise implements [store.Store].
func (g *Guard) Raise(ctx context.Context, tag string, next int64) error {
	err := g.Store.Raise(ctx, tag, next)
	if err == nil {
		g.Learn(tag, next)
	}
	return err
}

// Figures count what went back since the start.
type Figures struct {
	Store    int64 // ranges that proved that the store had
	Register int64 // times that the register proved to have
}

// Figures returns the figures.
func (g *Guard) Figures() Figures {
	return Figures{g.wentBack.store.Load(), g.wentBack.register.Load()}
}
