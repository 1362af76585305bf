package e2e

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/idworker/idworker/messages"
)

// machine notes when the whole machine stood still, as far as this process can tell: a virtual one that is not
// given its processors stops idworker, the servers and the test alike. What is late then says
// nothing about idworker. A worker that stalls alone is not excused.
var machine = watchMachine()

const (
	tickEvery = 20 * time.Millisecond
	stall     = 300 * time.Millisecond // many times what the scheduler adds to a tick
)

type stalls struct {
	mu   sync.Mutex
	seen []window
}

// watchMachine watches for as long as the process lives.
func watchMachine() *stalls {
	s := &stalls{}
	go func() {
		last := time.Now()
		for range time.Tick(tickEvery) {
			now := time.Now()
			if now.Sub(last) > stall {
				s.mu.Lock()
				s.seen = append(s.seen, window{last, now})
				s.mu.Unlock()
			}
			last = now
		}
	}()
	return s
}

// during are the stalls in a window.
func (s *stalls) during(w window) []window {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.seen), func(at window) bool { return at.to.Before(w.from) || at.from.After(w.to) })
}

// excuses reports whether a request was refused because it could not be answered in time, and the machine stood still
// while it was under way or just before.
func (s *stalls) excuses(err error, w window) bool {
	if !errors.Is(err, messages.ErrBusy) && !errors.Is(err, messages.ErrUnavailable) {
		return false
	}
	time.Sleep(2 * tickEvery) // the one who watches may be the last to go on
	return len(s.during(window{w.from.Add(-time.Second), w.to})) > 0
}
