package register

import (
	"context"
	"sync"
)

// Sharing has many callers share an answer that costs several requests: the one to a question that was
// asked after each of them came. So an answer is never older than the call. One of the callers asks;
// the zero value is ready for use.
type Sharing struct {
	mu   sync.Mutex
	last *round // the latest that somebody waits for or asks in
	open bool   // it has not begun to ask
}

// round is one question.
type round struct {
	done chan struct{}
	err  error
	gone bool // whoever asked gave up
}

// Do returns what ask does.
func (s *Sharing) Do(ctx context.Context, ask func(context.Context) error) error {
	for {
		r, before, mine := s.join()
		if mine {
			s.lead(ctx, r, before, ask)
			return r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !r.gone {
			return r.err
		}
	}
}

// join returns the round that has not begun, or begins one, which is the caller's to ask in once the
// one before is over.
func (s *Sharing) join() (r, before *round, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		return s.last, nil, false
	}
	before = s.last
	s.last, s.open = &round{done: make(chan struct{})}, true
	return s.last, before, true
}

func (s *Sharing) lead(ctx context.Context, r, before *round, ask func(context.Context) error) {
	defer close(r.done)
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	s.open = false // who comes from now on needs another one
	s.mu.Unlock()
	r.err = ask(ctx)
	r.gone = ctx.Err() != nil
}
