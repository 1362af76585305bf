package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/internal/loads"
	"github.com/idworker/idworker/messages"
)

// supply keeps an allocator supplied with segments: it asks loaders for them, and installs
// those that they grant.
type supply struct {
	processInfo
	alloc      *allocator.Allocator
	asker      *asker
	grants     *grantReceiver
	unanswered *unanswered
	subs       []*nats.Subscription // from start on
	background *goroutines
}

func newSupply(p processInfo, own func(loads.Event) bool) *supply {
	s := &supply{processInfo: p, background: newGoroutines()}
	s.unanswered = &unanswered{
		loading:   func() int { return s.alloc.Loading() },
		connected: p.cfg.Control.IsConnected,
		find:      func(ctx context.Context, event loads.Event) LoaderState { return findLoader(ctx, p, event) },
		log:       p.cfg.Log,
	}
	s.asker = &asker{
		js:           p.js,
		plain:        p.cfg.Control.Publish,
		prefix:       p.cfg.Prefix,
		instance:     p.instance,
		installation: p.installation.ID,
		own:          own,
		asked:        s.unanswered.asked,
		current:      func(tag string, seq uint64) (allocator.Load, bool) { return s.alloc.CurrentLoad(tag, seq) },
		log:          p.cfg.Log,
		publishing:   s.background,
	}
	s.asker.window = newWindow(s.asker.ask)
	began := time.Now()
	s.alloc = allocator.New(allocator.Config{
		Clock:   func() time.Duration { return time.Since(began) },
		Load:    s.asker.wish,
		MaxStep: p.cfg.MaxStep,
		Wait:    p.cfg.Wait,
	})
	s.grants = &grantReceiver{alloc: s.alloc, instance: p.instance, answered: s.answered, maxStep: p.cfg.MaxStep, foreign: p.foreign, log: p.cfg.Log}
	return s
}

// answered is told of each answer of a loader.
func (s *supply) answered(tag string, seq uint64) {
	s.unanswered.answered()
	s.asker.window.close(tag, seq)
}

// start returns when grants can reach the process.
func (s *supply) start(ctx context.Context) error {
	err := errors.Join(
		s.subscribe(loads.GrantSubject(s.cfg.Prefix, s.instance), s.grants.receive),
		s.subscribe(loads.DropSubject(s.cfg.Prefix), s.grants.drop))
	if err == nil {
		err = withTimeout(ctx, s.cfg.Control.FlushWithContext)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("subscribe to grants: %w", err), s.stop())
	}
	s.background.start(s.tick)
	s.background.start(s.unanswered.run)
	return nil
}

func (s *supply) subscribe(subject string, handle nats.MsgHandler) error {
	sub, err := s.cfg.Control.Subscribe(subject, handle)
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

// DropTag has the workers of an installation drop a tag from memory, as far as they can be
// reached. It is for tags that were removed from the store.
func DropTag(ctx context.Context, conn *nats.Conn, p messages.Prefix, tag string) error {
	if err := messages.CheckTag(tag); err != nil {
		return err
	}
	if err := conn.Publish(loads.DropSubject(p), []byte(tag)); err != nil {
		return err
	}
	return withTimeout(ctx, conn.FlushWithContext)
}

// stop ends the supply. What loaders grant from then on is burnt.
func (s *supply) stop() error {
	var err error
	for _, sub := range s.subs {
		err = errors.Join(err, unsubscribe(sub))
	}
	s.background.stop()
	return err
}

// idleEvery is how often the allocator drops idle tags.
const idleEvery = time.Minute

// ticksPerWait is how exactly deadlines are kept: to this part of Config.Wait.
const ticksPerWait = 40

// tick drives the deadlines of the allocator and the window until ctx ends.
func (s *supply) tick(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Wait / ticksPerWait)
	defer ticker.Stop()
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.alloc.Tick()
			s.asker.window.tick()
		case <-idle.C:
			s.alloc.DropIdle()
		}
	}
}

// fillStats adds the tags, the parked requests and the grants.
func (s *supply) fillStats(stats *Stats) {
	figures := s.alloc.Figures()
	stats.Parked = s.alloc.Parked()
	if err := s.unanswered.err(); err != nil {
		stats.NoLoader = err.Error()
	}
	stats.Grants = GrantStats{
		Installed: s.grants.installed.Load(), Burnt: s.grants.burnt.Load(), Below: s.grants.below.Load(), Refused: s.grants.refused.Load(),
	}
	stats.Active = s.alloc.Tags()
	for _, f := range busiest(figures, stats.maxTags) {
		stats.Tags = append(stats.Tags, TagStats{f.Tag, string(f.Order), f.Step, f.Left, f.Rate, f.Runway.Seconds(), f.Parked, useOf(f)})
	}
}

// useOf is how the numbers of a tag are used up.
func useOf(f allocator.Figures) forecast.Use {
	return forecast.Use{High: f.High, Rate: f.Use, Seconds: f.Over.Seconds()}
}
