package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/allocator"
	"github.com/idworker/idworker/internal/forecast"
	"github.com/idworker/idworker/internal/loads"
)

// supply keeps an allocator supplied with segments: it follows the tag directory, asks loaders for
// segments, and installs those that they grant.
type supply struct {
	processInfo
	alloc      *allocator.Allocator
	asker      *asker
	grants     *grantReceiver
	unanswered *unanswered
	absences   *absences // tags that the directory does not list any more
	firstUse   *firstUseGate
	grantSub   *nats.Subscription // from start on
	background *goroutines
}

func newSupply(p processInfo, to loadTarget) *supply {
	s := &supply{
		processInfo: p,
		absences:    newAbsences("directory", missingEvery, p.cfg.Log),
		background:  newGoroutines(),
	}
	s.unanswered = &unanswered{
		loading:   func() int { return s.alloc.Loading() },
		connected: p.cfg.Control.IsConnected,
		find:      func(ctx context.Context, event loads.Event) LoaderState { return findLoader(ctx, p, event) },
		log:       p.cfg.Log,
	}
	s.asker = &asker{
		js:           p.js,
		prefix:       p.cfg.Prefix,
		instance:     p.instance,
		installation: p.installation.ID,
		own:          to.own,
		direct:       to.direct,
		asked:        s.unanswered.asked,
		current:      func(tag string, seq uint64) (allocator.Load, bool) { return s.alloc.CurrentLoad(tag, seq) },
		rules: func(tag string) uint64 {
			if p.rules.Lookup(tag).Template == nil {
				return 0
			}
			return p.rules.Revision()
		},
		template:   func(tag string) string { return templateOf(p.rules, tag) },
		log:        p.cfg.Log,
		publishing: s.background,
	}
	s.asker.window = newWindow(s.asker.ask)
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) }
	s.firstUse = newFirstUseGate(p.rules, clock)
	s.alloc = allocator.New(allocator.Config{
		Clock:    clock,
		FirstUse: s.firstUse.step,
		Template: s.asker.template,
		Load:     s.asker.wish,
		Ordered:  func(tag string) bool { return isStrict(p.rules, tag) },
		MaxStep:  p.cfg.MaxStep,
		Wait:     p.cfg.Wait,
	})
	p.rules.Observe(func(tag string) {
		if tag == "" {
			s.firstUse.reconsider()
			s.alloc.Reconsider(s.firstUse.current)
		}
	})
	s.grants = &grantReceiver{firstUse: s.firstUse, alloc: s.alloc, instance: p.instance, answered: s.answered, maxStep: p.cfg.MaxStep, foreign: p.foreign, log: p.cfg.Log}
	return s
}

// answered is told of each answer of a loader.
func (s *supply) answered(tag string, seq uint64) {
	s.unanswered.answered()
	s.asker.window.close(tag, seq)
}

// start returns when grants can reach the process and it knows the tags.
func (s *supply) start(ctx context.Context) (err error) {
	s.grantSub, err = s.cfg.Control.Subscribe(loads.GrantSubject(s.cfg.Prefix, s.instance), s.grants.receive)
	if err != nil {
		return fmt.Errorf("subscribe to grants: %w", err)
	}
	known, progress := make(chan struct{}), make(chan struct{}, 1)
	f := &follower{
		directory: s.directory, sink: s.alloc, absent: s.absences,
		ready: sync.OnceFunc(func() { close(known) }),
		progress: func() {
			select {
			case progress <- struct{}{}:
			default:
			}
		},
	}
	s.background.start(f.run)
	s.background.start(s.tick)
	s.background.start(s.unanswered.run)
	if err = awaitKnown(ctx, known, progress); err == nil {
		err = withTimeout(ctx, s.cfg.Control.FlushWithContext)
	}
	if err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

// awaitKnown waits until the tags are known. However many there are, only the time in which
// nothing is learned is limited.
func awaitKnown(ctx context.Context, known, progress <-chan struct{}) error {
	silence := time.NewTimer(startTimeout)
	defer silence.Stop()
	for {
		select {
		case <-known:
			return nil
		case <-progress:
			silence.Reset(startTimeout)
		case <-silence.C:
			return fmt.Errorf("read the tag directory: nothing has come for %v", startTimeout)
		case <-ctx.Done():
			return fmt.Errorf("read the tag directory: %w", ctx.Err())
		}
	}
}

// stop ends the supply. What loaders grant from then on is burnt.
func (s *supply) stop() error {
	err := unsubscribe(s.grantSub)
	s.background.stop()
	return err
}

// idleAfter is how long a tag of a template may not have been asked for at least, and twice as long at
// most, until it is forgotten.
const idleAfter = time.Minute

// ticksPerWait is how exactly deadlines are kept: to this part of Config.Wait.
const ticksPerWait = 40

// tick drives the deadlines of the allocator and the window until ctx ends.
func (s *supply) tick(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Wait / ticksPerWait)
	defer ticker.Stop()
	idle := time.NewTicker(idleAfter)
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
	stats.Active = len(figures)
	for _, f := range busiest(figures, stats.maxTags) {
		stats.Tags = append(stats.Tags, TagStats{f.Tag, string(s.rules.Lookup(f.Tag).Order), f.Step, f.Left, f.Rate, f.Runway.Seconds(), f.Parked, useOf(f)})
	}
}

// useOf is how the numbers of a tag are used up.
func useOf(f allocator.Figures) forecast.Use {
	return forecast.Use{High: f.High, Rate: f.Use, Seconds: f.Over.Seconds()}
}

// loadTarget is where loads go that bypass the load stream.
type loadTarget struct {
	own    func(loads.Event) bool // the process's own loader, if it has one whose store is up
	direct func(loads.Event)      // the own loader in any case, or if there is none, any loader
}

// anyLoader is the target of a process that has no loader. If none receives the event, the
// allocator asks again.
func anyLoader(p processInfo) loadTarget {
	return loadTarget{
		own: func(loads.Event) bool { return false },
		direct: func(event loads.Event) {
			_ = p.cfg.Control.Publish(loads.ReserveSubject(p.cfg.Prefix), event.Encode())
		},
	}
}
