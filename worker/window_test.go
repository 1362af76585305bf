package worker

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// askedLoads answers what a window asks for, or does not.
type askedLoads struct {
	mu       sync.Mutex
	w        *window
	answers  time.Duration // after which each is answered; 0: never
	asked    []string
	unwanted map[string]bool
}

func (a *askedLoads) ask(tag string, seq uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unwanted[tag] {
		return false
	}
	a.asked = append(a.asked, tag)
	if a.answers > 0 {
		time.AfterFunc(a.answers, func() {
			a.mu.Lock()
			a.unwanted[tag] = true
			a.mu.Unlock()
			a.w.close(tag, seq)
		})
	}
	return true
}

func (a *askedLoads) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

func (a *askedLoads) answerAfter(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = d
}

// tickFor lets time pass, with the ticks of a worker.
func (a *askedLoads) tickFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		a.w.tick()
	}
}

func testWindow(t *testing.T, f func(t *testing.T, a *askedLoads)) {
	synctest.Test(t, func(t *testing.T) {
		a := &askedLoads{unwanted: make(map[string]bool)}
		a.w = newWindow(a.ask)
		f(t, a)
	})
}

// TestWindowInAnOutage: while nobody answers, a worker asks for five loads a second, however
// many it wants; and as soon as somebody does, for all, as fast as it is answered.
func TestWindowInAnOutage(t *testing.T) {
	testWindow(t, func(t *testing.T, a *askedLoads) {
		const tags = 10_000
		wish := func() {
			for n := range tags {
				a.w.add(fmt.Sprint(n), 1, time.Now(), false)
			}
		}
		a.answerAfter(time.Millisecond)
		for n := range mostOpen {
			a.w.add(fmt.Sprint("warm", n), 1, time.Now(), false)
		}
		a.tickFor(time.Second)
		a.answerAfter(0)
		before := a.count()
		wish()
		if asked := a.count() - before; asked != mostOpen {
			t.Errorf("%d loads were asked for at once when answers had come, want %d", asked, mostOpen)
		}
		a.tickFor(2 * time.Second)
		before = a.count()
		for range 6 {
			wish() // the allocator asks again
			a.tickFor(10 * time.Second)
		}
		if asked := a.count() - before; asked > 6*60 || asked < 4*60 {
			t.Errorf("%d loads were asked for in a minute, want about %d a second", asked, leastOpen)
		}
		wish()
		a.answerAfter(5 * time.Millisecond)
		before = a.count()
		a.tickFor(2 * time.Second)
		if asked := a.count() - before; asked < tags*9/10 && len(a.unwanted) < tags {
			t.Errorf("%d loads asked for and %d answered within two seconds, want all", asked, len(a.unwanted))
		}
	})
}

// TestWindowAsksInOrderOfNeed: what is needed first is asked for first; a load that was answered
// meanwhile is not asked for; and one that is wished for again is asked for once more, but not
// while it is open.
func TestWindowAsksInOrderOfNeed(t *testing.T) {
	testWindow(t, func(t *testing.T, a *askedLoads) {
		for n := range leastOpen {
			a.w.add(fmt.Sprint("open", n), 1, time.Now(), false)
		}
		now := time.Now()
		a.w.add("idle", 1, now.Add(1000*time.Hour), false)
		a.w.add("minute", 1, now.Add(time.Minute), false)
		a.w.add("hour", 1, now.Add(time.Hour), false)
		a.w.add("gone", 1, now, false)
		a.unwanted["gone"] = true
		a.w.add("parked", 1, now, false)
		a.w.add("hour", 1, now.Add(time.Second), false)
		a.w.add("open0", 1, now.Add(time.Hour), false)
		a.tickFor(1100 * time.Millisecond)
		want := "[open0 open1 open2 open3 open4 parked hour minute open0 idle]"
		if got := fmt.Sprint(a.asked); got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
		a.w.add("parked", 2, now, false) // another load of a tag that is open: the first one has ended
		a.w.close("parked", 1)
		a.tickFor(1100 * time.Millisecond)
		if got := fmt.Sprint(a.asked); got != want[:len(want)-1]+" parked]" {
			t.Errorf("asked for %s, want another load of the parked tag", got)
		}
	})
}

// TestWindowIgnoresOvertakenLoads: a load is not replaced by an earlier one of its tag, whose wish
// was overtaken, whether it waits or is open.
func TestWindowIgnoresOvertakenLoads(t *testing.T) {
	for _, limit := range []int{0, leastOpen} {
		var asked []uint64
		w := newWindow(func(_ string, seq uint64) bool { asked = append(asked, seq); return true })
		w.limit = limit
		w.add("order", 6, time.Now(), false)
		w.add("order", 5, time.Now(), false)
		w.limit = leastOpen
		w.advance()
		if len(asked) != 1 || asked[0] != 6 {
			t.Errorf("limit %d: asked for %v, want 6 alone", limit, asked)
		}
	}
}

// TestWindowWithUnknownTags: tags that the worker was never granted, whose names may be made
// up, take an eighth of the window, whatever waits.
func TestWindowWithUnknownTags(t *testing.T) {
	testWindow(t, func(t *testing.T, a *askedLoads) {
		a.w.limit = mostOpen
		for n := range 10_000 {
			a.w.add(fmt.Sprint("evil", n), 1, time.Now(), true)
		}
		if n := a.count(); n != mostOpen/unknownShare {
			t.Errorf("%d unknown tags are open, of %d loads that may be", n, mostOpen)
		}
		before := a.count()
		a.w.add("cold", 1, time.Now(), false)
		a.w.close("evil0", 1)
		if got, want := fmt.Sprint(a.asked[before:]), fmt.Sprintf("[cold evil%d]", before); got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	})
}
