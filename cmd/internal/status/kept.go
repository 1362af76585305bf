package status

import (
	"context"
	"sync"
	"time"
)

// How often doctor looks, how long it may take, and how long somebody waits for it.
const (
	checkEvery   = time.Minute
	checkTimeout = 30 * time.Second
	checkWait    = time.Second
)

// examination is what doctor found last. It looks in the background: one question that is not answered takes
// seconds.
type examination struct {
	mu      sync.Mutex
	checks  []Check
	looked  time.Time
	looking chan struct{} // closed when the look under way is over; nil if none is
	cancel  context.CancelFunc
	stopped bool
}

// get returns what was found. The first time it waits for that, but not for long.
func (e *examination) get(examine func(context.Context) []Check) []Check {
	e.mu.Lock()
	if examine != nil && !e.stopped && e.looking == nil && time.Since(e.looked) >= checkEvery {
		ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
		e.looking, e.cancel = make(chan struct{}), cancel
		go e.look(ctx, examine, e.looking)
	}
	looking, first := e.looking, e.looked.IsZero()
	e.mu.Unlock()
	if first && looking != nil {
		select {
		case <-looking:
		case <-time.After(checkWait):
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.checks
}

// stop ends the look under way.
func (e *examination) stop() {
	e.mu.Lock()
	e.stopped = true
	looking := e.looking
	if looking != nil {
		e.cancel()
	}
	e.mu.Unlock()
	if looking != nil {
		<-looking
	}
}

func (e *examination) look(ctx context.Context, examine func(context.Context) []Check, done chan struct{}) {
	checks := examine(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel()
	e.checks, e.looked, e.looking = checks, time.Now(), nil
	close(done)
}

// memory is which processes reported, and when.
type memory map[string]remembered

type remembered struct {
	host     string
	unleased bool // it held no worker ID
	at       time.Time
}

// shortFor is how long a tag has little in memory before it is worth a warning: when a tag begins to be asked for
// its first segments are small, and the rate is that of the first requests.
const shortFor = time.Minute

// rememberShort marks the tags that have had little in memory for a while, as far as they were looked at.
func (c *collection) rememberShort(i *Installation) {
	short := make(map[string]time.Time)
	for n := range i.Tags {
		t := &i.Tags[n]
		if t.Rate == 0 || t.Runway >= shortRunway.Seconds() {
			continue
		}
		since, known := c.short[t.Name]
		if !known {
			since = i.Taken
		}
		short[t.Name] = since
		t.Short = i.Taken.Sub(since) >= shortFor || t.Parked > 0
	}
	c.short = short
}

// remembersFor is how long a process that has ended is spoken of.
const remembersFor = 10 * time.Minute
