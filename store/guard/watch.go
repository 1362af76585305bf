package guard

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
)

// How often the register is asked how it is, how long a question may take, and after which time
// a tag that seems to be too low is asked for again: a replica that has just become the leader
// may not know the latest writes at once.
const (
	lookEvery   = time.Second
	lookTimeout = 5 * time.Second
	lookTwice   = 300 * time.Millisecond
	watchAgain  = 500 * time.Millisecond
)

// Run watches the register until ctx ends. It returns at once if there is none.
func (g *Guard) Run(ctx context.Context) {
	if g.register == nil {
		return
	}
	failing := false
	for ctx.Err() == nil {
		err := g.follow(ctx, func() {
			if failing {
				g.log.Info("what is granted is watched again")
			}
			failing = false
		})
		if ctx.Err() == nil && err != nil && !failing {
			g.log.Warn("what is granted cannot be watched, trying again", zap.Error(err))
			failing = true
		}
		if err != nil {
			pause.For(ctx, watchAgain)
		}
	}
}

// follow watches the register until something is suspicious, which is no error, or the watch
// breaks off.
func (g *Guard) follow(ctx context.Context, current func()) error {
	position, made, err := g.position(ctx)
	if err != nil {
		return err
	}
	g.begin(position)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	marks := make(chan struct{}, 1) // all marks have been seen
	doubts := make(chan string, 64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(g.register.Watch(ctx, func(m store.Mark) {
			if g.see(m) {
				select {
				case doubts <- m.Tag:
				default: // the rest follows from the first
				}
			}
		}, func() { marks <- struct{}{} }))
	}()
	err = g.attend(ctx, made, marks, doubts, current)
	g.setCounted(false)
	cancel(nil)
	<-ended
	return err
}

// attend looks at the register every now and then while it is watched.
func (g *Guard) attend(ctx context.Context, made time.Time, marks <-chan struct{}, doubts <-chan string, current func()) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-marks:
			if err := g.compareAll(ctx); err != nil {
				return err
			}
			current()
		case tag := <-doubts:
			return g.repair(ctx, []string{tag}) // and then all others
		case <-tick.C:
			if again, err := g.look(ctx, made); err == nil && again {
				return nil
			}
		case <-g.alarm:
			return nil
		}
	}
}

// look reports whether all marks have to be looked at again. A latest revision that is lower than
// one that was seen, and stays so, is proof.
func (g *Guard) look(ctx context.Context, made time.Time) (again bool, err error) {
	_, seen := g.recall("") // before the question, for others go on writing
	position, now, err := g.position(ctx)
	if err != nil || position >= seen {
		return !now.Equal(made), err
	}
	pause.For(ctx, lookEvery)
	if position, _, err = g.position(ctx); err == nil && position < seen {
		g.mu.Lock()
		g.hold.begin()
		g.mu.Unlock()
	}
	return true, err
}

func (g *Guard) setCounted(counted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counted = counted
}

func (g *Guard) position(ctx context.Context) (uint64, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return g.register.Position(ctx)
}

// begin begins a pass over all marks. Revisions are counted from where the register is now:
// whether it went back is found out from the marks.
func (g *Guard) begin(position uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass++
	g.latest = position
}

// see takes in a mark, and reports whether it is suspicious: later than the one before, and lower.
func (g *Guard) see(mark store.Mark) (suspicious bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.memory(mark.Tag)
	g.latest = max(g.latest, mark.Revision)
	if !mark.Own {
		m.floor = max(m.floor, mark.End)
	}
	if m.pass == g.pass && mark.Revision < m.revision && !mark.Answer {
		return false // the watch shows it only now
	}
	suspicious = mark.Revision > m.revision && mark.End < m.current
	if mark.Step > 0 {
		m.step = mark.Step
	}
	if mark.Answer {
		m.own = mark.Revision
	}
	m.pass, m.current, m.revision = g.pass, mark.End, mark.Revision
	if !m.appeared && mark.End > 0 {
		m.appeared = true // once, even if somebody deletes it and it comes again
		if g.Appeared != nil {
			g.Appeared(mark.Tag)
		}
	}
	m.written = max(m.written, mark.End)
	if mark.Deleted {
		m.written = 0 // but nothing below the floor is granted
		return false
	}
	return suspicious
}

// compareAll looks for tags whose mark in this pass is lower than one that was seen before, and
// repairs them.
func (g *Guard) compareAll(ctx context.Context) error {
	var low []string
	g.mu.Lock()
	proven := g.hold.begun
	for tag, m := range g.tags {
		if m.written > 0 && (m.pass != g.pass || m.current < m.written) {
			low = append(low, tag)
		}
	}
	g.mu.Unlock()
	if proven {
		g.reportRegister(low)
	}
	if err := g.repair(ctx, low); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.complete, g.counted = true, true
	if g.hold.end() {
		g.log.Warn("what the register had lost is restored; loads go on shortly", zap.Duration("after", holdFor))
	}
	return nil
}
