package natsconn

import (
	"sync"
	"time"
)

// floodgate lets one line a second into the log, and counts the others.
type floodgate struct {
	mu         sync.Mutex
	next       time.Time
	suppressed int64
}

// pass reports whether a line may pass, and how many did not since the last one that did.
func (f *floodgate) pass() (suppressed int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.next) {
		f.suppressed++
		return 0, false
	}
	suppressed, f.suppressed, f.next = f.suppressed, 0, now.Add(time.Second)
	return suppressed, true
}
