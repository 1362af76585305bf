package register

import (
	"sync"
	"time"
)

// quiet is how long nothing must happen to a tag until its episode is over.
const quiet = time.Minute

// Episodes tells the first of many reports about a tag from those that follow. The zero value
// is ready for use.
type Episodes struct {
	mu     sync.Mutex
	latest map[string]time.Time
}

// Begins records that something happened to a tag, and reports whether it is the first time
// for at least a minute.
func (e *Episodes) Begins(tag string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	last, known := e.latest[tag]
	if e.latest == nil {
		e.latest = make(map[string]time.Time)
	}
	e.latest[tag] = now
	return !known || now.Sub(last) >= quiet
}
