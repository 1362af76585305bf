package status

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	shownFor  = 2 * time.Second  // a collection
	idleAfter = 30 * time.Second // nobody has looked, and the connection is closed
)

// Shared is one collection for all who look.
type Shared struct {
	collector *Collector

	mu     sync.Mutex
	latest *Installation
	until  time.Time     // latest is shown
	flight chan struct{} // closed when the collection under way is over; nil if none is
	idle   *time.Timer
	closed bool
}

// NewShared has a collector, and closes it when nobody has looked for a while.
func NewShared(c *Collector) *Shared {
	s := &Shared{collector: c}
	s.idle = time.AfterFunc(idleAfter, s.rest)
	return s
}

// errClosed says that nobody collects any more.
var errClosed = errors.New("stopping")

// Get returns the installation as it was found not more than two seconds ago. Its error is that of ctx, or that the
// process is stopping.
func (s *Shared) Get(ctx context.Context) (*Installation, error) {
	for {
		latest, flight, err := s.look()
		if latest != nil || err != nil {
			return latest, err
		}
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns what was found lately, or the collection that is under way.
func (s *Shared) look() (latest *Installation, flight <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, errClosed
	case s.latest != nil && time.Now().Before(s.until):
		return s.latest, nil, nil
	case s.flight == nil:
		s.flight = make(chan struct{})
		go s.collect(s.flight)
	}
	return nil, s.flight, nil
}

// collect collects. It does not end with who asked for it: others wait too.
func (s *Shared) collect(done chan struct{}) {
	latest := s.collector.Collect(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest, s.until, s.flight = latest, time.Now().Add(shownFor), nil
	if !s.closed {
		s.idle.Reset(idleAfter)
	}
	close(done)
}

// rest closes the connection, and lets go of what may be much memory.
func (s *Shared) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight == nil && !s.closed {
		s.collector.Close()
		s.latest = nil
	}
}

// Close ends it, and waits for the collection under way.
func (s *Shared) Close() {
	s.mu.Lock()
	s.closed = true
	s.idle.Stop()
	flight := s.flight
	s.mu.Unlock()
	if flight != nil {
		<-flight
	}
	s.collector.Stop()
}
