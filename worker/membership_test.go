package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

type fakeMember struct {
	once sync.Once
	gone chan struct{}
}

func newFakeMember() *fakeMember { return &fakeMember{gone: make(chan struct{})} }

func (m *fakeMember) stop()                  { m.once.Do(func() { close(m.gone) }) }
func (m *fakeMember) left() <-chan struct{}  { return m.gone }
func (m *fakeMember) state() (up, late bool) { return true, false }

func (m *fakeMember) stopped() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

// TestReasonsToStayAway: a process is in a queue group only while no reason keeps it out, in
// whatever order they come and go, and it is missing only if it should be there.
func TestReasonsToStayAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var current *fakeMember
		m := newMembership(zap.NewNop())
		open := func() (member, error) {
			current = newFakeMember()
			return current, nil
		}
		check := func(what string, in, missing bool) {
			t.Helper()
			synctest.Wait()
			if got := current != nil && !current.stopped(); got != in || (m.missing() != nil) != missing {
				t.Errorf("%s: in %v, want %v; missing %v, want %v", what, got, in, m.missing(), missing)
			}
		}
		m.stayAway(givingWay, true)
		check("before there is anything to answer with", false, false)
		if err := <-m.join(open); err != nil {
			t.Error(err)
		}
		check("joining while giving way", false, false)
		m.stayAway(overloaded, true)
		check("overloaded too", false, false)
		m.stayAway(overloaded, false)
		check("no longer overloaded", false, false)
		m.stayAway(givingWay, false)
		check("back", true, false)
		m.stayAway(overloaded, true)
		check("overloaded", false, true)
		m.stayAway(givingWay, true)
		check("giving way too", false, false)
		m.stayAway(givingWay, false)
		check("no longer giving way", false, true)
		m.stayAway(overloaded, false)
		check("back again", true, false)
		m.leave()
		check("left", false, false)
		m.close()
		m.join(open)
		check("joining when closed", false, true)
	})
}

// TestEntersUntilIn: an attempt to enter that fails is made again, as long as the process
// should be in the group; and what was lost is replaced.
func TestEntersUntilIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing, tries := errors.New("failing"), 0
		var current *fakeMember
		m := newMembership(zap.NewNop())
		open := func() (member, error) {
			if tries++; tries <= 3 {
				return nil, failing
			}
			current = newFakeMember()
			return current, nil
		}
		if err := <-m.join(open); !errors.Is(err, failing) || !errors.Is(m.missing(), failing) {
			t.Errorf("joining fails: %v, missing %v", err, m.missing())
		}
		time.Sleep(3*enterAgain + 1)
		synctest.Wait()
		if tries != 4 || m.missing() != nil {
			t.Errorf("%d tries, missing %v; want 4 and in", tries, m.missing())
		}
		lost := current
		lost.stop()
		synctest.Wait()
		if m.missing() != nil || current == lost || tries != 5 {
			t.Error("a member that was lost is not replaced")
		}
		tries = 0
		m.leave()
		m.join(open)
		synctest.Wait()
		m.leave()
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries != 1 {
			t.Errorf("%d tries, want none after leaving", tries)
		}
		m.close()
	})
}

// TestLeavesWhileEntering: whoever left while it was entering is not in, and whoever joins
// again meanwhile answers with what is right by then.
func TestLeavesWhileEntering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembership(zap.NewNop())
		hold := make(chan struct{})
		old, next := newFakeMember(), newFakeMember()
		m.join(func() (member, error) { <-hold; return old, nil })
		synctest.Wait()
		m.leave()
		joined := m.join(func() (member, error) { return next, nil })
		close(hold)
		if err := <-joined; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !old.stopped() || next.stopped() || m.missing() != nil {
			t.Errorf("the old one stopped: %v; the next one: %v; missing: %v", old.stopped(), next.stopped(), m.missing())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if m.awaitLeft(ctx); ctx.Err() != nil {
			t.Error("the old one has not left")
		}
		m.close()
	})
}
