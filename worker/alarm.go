package worker

import (
	"sync"
	"time"
)

// alarm is a timer that several goroutines set, and that rings at the earliest of their times.
type alarm struct {
	timer *time.Timer

	mu sync.Mutex
	at time.Time // when it rings, or rang
}

// set has it ring at the given time, unless it rings earlier anyway.
func (a *alarm) set(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.After(time.Now()) && a.at.Before(at) {
		return
	}
	a.at = at
	a.timer.Reset(time.Until(at))
}
