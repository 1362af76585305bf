package guard

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
)

// repair asks the leader for each of the tags, and raises those that are lower than was seen in
// the register. Of these the first is logged, and all together count once.
func (g *Guard) repair(ctx context.Context, tags []string) error {
	low, err := g.confirm(ctx, tags)
	if err == nil && len(low) > 0 {
		pause.For(ctx, lookTwice)
		low, err = g.confirm(ctx, low)
	}
	if err != nil || len(low) == 0 {
		return err
	}
	g.mu.Lock()
	g.hold.begin()
	g.mu.Unlock()
	g.reportRegister(low)
	for _, tag := range low {
		if err := g.restore(ctx, tag); err != nil {
			return fmt.Errorf("tag %s: restore what the register lost: %w", tag, err)
		}
	}
	g.mu.Lock()
	complete := g.complete
	g.mu.Unlock()
	if !complete {
		return nil
	}
	if err := g.register.Restored(ctx); err != nil {
		return fmt.Errorf("restore the register: %w", err)
	}
	return nil
}

// confirm returns those of the tags that are lower than was seen in the register, by what its
// leader says.
func (g *Guard) confirm(ctx context.Context, tags []string) (low []string, err error) {
	for _, tag := range tags {
		asking, cancel := context.WithTimeout(ctx, lookTimeout)
		mark, err := g.register.Mark(asking, tag)
		cancel()
		if errors.Is(err, store.ErrCorrupt) {
			continue // it grants nothing, and somebody has to look at it
		}
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		m := g.memory(tag)
		if mark.End < m.written && !mark.Deleted {
			low = append(low, tag)
		} else {
			m.current, m.revision, m.pass = mark.End, mark.Revision, g.pass
		}
		g.mu.Unlock()
	}
	return low, nil
}

// reportRegister logs and counts that the register went back, once until it is restored.
func (g *Guard) reportRegister(low []string) {
	if g.episodes.Begins("") { // no tag has that name
		g.wentBack.register.Add(1)
		log := g.log.With(zap.Int("tags", len(low)))
		if len(low) > 0 {
			log = log.With(zap.String("tag", low[0]), zap.Int64("granted_below", g.floor(low[0])))
		}
		log.Error("the register of what was granted went back; nothing that was given away is granted again, and it is being raised")
	}
}

// restore raises a tag in the register and in the store. A tag that the store has lost stays in
// the register.
func (g *Guard) restore(ctx context.Context, tag string) error {
	g.mu.Lock()
	m := *g.memory(tag)
	g.mu.Unlock()
	if err := g.register.Restore(ctx, store.Mark{Tag: tag, End: m.floor, Step: m.step}); err != nil {
		return err
	}
	if err := g.Store.Raise(ctx, tag, m.floor); err != nil && !errors.Is(err, store.ErrNoTag) {
		return err
	}
	return nil
}
