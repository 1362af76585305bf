package worker

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// fakeMember leaves when stop is called, unless that takes some time.
type fakeMember struct {
	gone chan struct{}
	slow time.Duration
	late atomic.Bool
}

func newFakeMember() *fakeMember { return &fakeMember{gone: make(chan struct{})} }

func (m *fakeMember) stop() {
	if !m.stopped() {
		time.AfterFunc(m.slow, func() { close(m.gone) })
	}
}
func (m *fakeMember) left() <-chan struct{}  { return m.gone }
func (m *fakeMember) state() (up, late bool) { return true, m.late.Load() }

func (m *fakeMember) stopped() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

// fakeOpener opens fake members, or fails.
type fakeOpener struct {
	fails int           // number of initial failures
	slow  time.Duration // duration of opening

	mu     sync.Mutex
	tries  int
	opened []*fakeMember
}

var errFails = errors.New("no servers available")

func (o *fakeOpener) open() (member, error) {
	time.Sleep(o.slow)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tries++; o.tries <= o.fails {
		return nil, errFails
	}
	m := newFakeMember()
	o.opened = append(o.opened, m)
	return m, nil
}

// in reports whether the latest member is in the group.
func (o *fakeOpener) in() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.opened) > 0 && !o.opened[len(o.opened)-1].stopped()
}

// testGroup runs a test of a queue group in virtual time.
func testGroup(t *testing.T, test func(t *testing.T, g *queueGroup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newQueueGroup(zap.NewNop())
		g.start()
		defer g.close()
		test(t, g)
	})
}

// sleep returns when everything due is done.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestInTheGroupWhenItShouldBe: a process is in a queue group only while it has
// an opener and does not stand by, in any order of changes. It is missing only
// if it should be there.
func TestInTheGroupWhenItShouldBe(t *testing.T) {
	testGroup(t, func(t *testing.T, g *queueGroup) {
		o := new(fakeOpener)
		check := func(what string, in, missing bool) {
			t.Helper()
			synctest.Wait()
			if o.in() != in || (g.missing() != nil) != missing {
				t.Errorf("%s: in %v, want %v; missing %v, want %v", what, o.in(), in, g.missing(), missing)
			}
		}
		g.standBy(true)
		check("before there is anything to answer with", false, false)
		g.answerWith(o)
		check("standing by", false, false)
		g.standBy(false)
		check("no longer standing by", true, false)
		g.standBy(true)
		check("standing by again", false, false)
		g.answerWith(nil)
		g.standBy(false)
		check("without anything to answer with", false, false)
		g.answerWith(o)
		check("back", true, false)
		g.answerWith(o)
		if synctest.Wait(); len(o.opened) != 2 {
			t.Errorf("%d members were opened, want no other for the same", len(o.opened))
		}
		g.close()
		g.answerWith(new(fakeOpener))
		check("closed", false, true)
	})
}

// TestEntersUntilIn: failed attempts to enter are retried while the process
// should be in the group, and a lost member is replaced.
func TestEntersUntilIn(t *testing.T) {
	testGroup(t, func(t *testing.T, g *queueGroup) {
		o := &fakeOpener{fails: 3}
		g.answerWith(o)
		if err := g.awaitEntered(t.Context()); !errors.Is(err, errFails) {
			t.Errorf("got %v, want %v", err, errFails)
		}
		sleep(3*enterAgain + 1)
		if o.tries != 4 || g.missing() != nil {
			t.Errorf("%d tries, missing %v; want 4 and in", o.tries, g.missing())
		}
		close(o.opened[0].gone)
		synctest.Wait()
		if !o.in() || o.tries != 5 {
			t.Error("a member that was lost is not replaced")
		}
		never := &fakeOpener{fails: 1 << 30}
		g.answerWith(never)
		synctest.Wait()
		g.answerWith(nil)
		sleep(time.Hour)
		if never.tries != 1 {
			t.Errorf("%d tries, want none after leaving", never.tries)
		}
	})
}

// TestOneMemberAtATime: the next member is opened after the previous one has
// handled its delivered requests, whatever ends it.
func TestOneMemberAtATime(t *testing.T) {
	for what, end := range map[string]func(g *queueGroup, m *fakeMember){
		"another worker ID": func(g *queueGroup, _ *fakeMember) { g.answerWith(nil) },
		"overload":          func(_ *queueGroup, m *fakeMember) { m.late.Store(true) },
		"standing by":       func(g *queueGroup, _ *fakeMember) { g.standBy(true); synctest.Wait(); g.standBy(false) },
	} {
		testGroup(t, func(t *testing.T, g *queueGroup) {
			old, next := new(fakeOpener), new(fakeOpener)
			g.answerWith(old)
			synctest.Wait()
			slow := old.opened[0]
			slow.slow = time.Minute
			end(g, slow)
			g.answerWith(next)
			sleep(time.Minute / 2)
			if slow.stopped() || next.in() {
				t.Errorf("%s: a second member beside one that still answers", what)
			}
			sleep(time.Minute)
			if !slow.stopped() || !next.in() || len(old.opened)+len(next.opened) != 2 || g.missing() != nil {
				t.Errorf("%s: it is not in with the next member", what)
			}
		})
	}
}

// TestCloseAwaitsTheMember: a process that stops waits until its member has
// handled its delivered requests.
func TestCloseAwaitsTheMember(t *testing.T) {
	testGroup(t, func(t *testing.T, g *queueGroup) {
		o := new(fakeOpener)
		g.answerWith(o)
		synctest.Wait()
		o.opened[0].slow = time.Minute
		if g.close(); o.in() || g.refuses() == nil {
			t.Errorf("closed: in %v, refuses %v", o.in(), g.refuses())
		}
	})
}

// TestLeavesWhileEntering: a process that left while entering is not in the
// group, and it answers with the opener of that time.
func TestLeavesWhileEntering(t *testing.T) {
	testGroup(t, func(t *testing.T, g *queueGroup) {
		old, next := &fakeOpener{slow: time.Minute}, new(fakeOpener)
		g.answerWith(old)
		synctest.Wait()
		g.answerWith(nil)
		g.answerWith(next)
		sleep(time.Hour)
		if old.in() || !next.in() || g.missing() != nil {
			t.Errorf("the old one in: %v; the next one: %v; missing: %v", old.in(), next.in(), g.missing())
		}
	})
}

// TestOverload: an overloaded process leaves, reports that, refuses direct
// requests, and comes back.
func TestOverload(t *testing.T) {
	testGroup(t, func(t *testing.T, g *queueGroup) {
		o := new(fakeOpener)
		g.answerWith(o)
		synctest.Wait()
		m := o.opened[0]
		m.slow = time.Minute
		m.late.Store(true)
		sleep(time.Second)
		if got := (OverloadStats{true, 1}); g.overload() != got || !errors.Is(g.missing(), errLeftOverloaded) || g.refuses() == nil {
			t.Errorf("%+v, missing %v, refuses %v", g.overload(), g.missing(), g.refuses())
		}
		sleep(time.Minute)
		if got := (OverloadStats{false, 1}); g.overload() != got || g.missing() != nil || g.refuses() != nil {
			t.Errorf("%+v, missing %v, refuses %v", g.overload(), g.missing(), g.refuses())
		}
	})
}

// TestReportsWhyItIsNotInTheGroup: a process that cannot enter a queue group
// reports the group and the reason. Without the group of snowflake requests it
// is ready, because it answers the others.
func TestReportsWhyItIsNotInTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &queueGroups{segments: newQueueGroup(zap.NewNop()), workerID: &workerID{group: newQueueGroup(zap.NewNop())}}
		for _, group := range []*queueGroup{g.segments, g.workerID.group} {
			group.start()
			defer group.close()
			group.answerWith(&fakeOpener{fails: 1})
		}
		synctest.Wait()
		for group, err := range map[string]error{"segment": g.ready(), "snowflake": g.degraded()} {
			if want := "not in the " + group + " queue group: " + errFails.Error(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		sleep(time.Minute)
		if g.ready() != nil || g.degraded() != nil {
			t.Errorf("in the groups: %v, %v", g.ready(), g.degraded())
		}
	})
}
