package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
)

// sent is the state in which something was sent.
type sent struct {
	at         time.Time
	reconnects uint64
	doubts     int
	seen       uint64
}

// How often the register is polled, at least, and how old the poll may be behind which a
// range is granted: no restore of a stream is as short. A connection that is paused for
// longer has to begin again.
const (
	pollEvery  = time.Second
	pollAge    = 5 * time.Second
	askTimeout = 5 * time.Second

	// suspicion is how long something has to look wrong on a replicated stream until it is
	// proof: a leader that lost the others answers with what it has, without them, until it
	// notices that after at most 20 s. Nothing is granted meanwhile.
	suspicion = 25 * time.Second
)

// Run implements [store.Loader]: it polls the register once a second, so that little was
// written that this process has not seen when the register goes back, and has that noted.
func (s *Store) Run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := s.poll(ctx, true)
		if err == nil {
			err = s.note(ctx)
		}
		wrong := errors.Is(err, store.ErrRegressed) || ctx.Err() != nil // which is logged
		switch {
		case err == nil || wrong || failing:
		case errors.Is(err, ErrWitness):
			s.log.Error("witness cannot be written", zap.Error(err))
		default:
			s.log.Warn("register cannot be polled", zap.Error(err))
		}
		failing = err != nil && !wrong
		pause.For(ctx, pollEvery)
	}
}

// note writes what was seen to the witness.
func (s *Store) note(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all := make(map[string]evidence)
	for _, bucket := range s.cfg.Beside {
		found, err := ask(ctx, s.cfg.JetStream, bucket)
		if err != nil {
			return err
		}
		all[bucket] = evidence{Seen: max(found.last, s.cfg.Witness.evidence(bucket).Seen)}
	}
	s.mu.Lock()
	all[s.bucket] = s.evidence.clone()
	s.mu.Unlock()
	return s.cfg.Witness.note(all)
}

// permit returns the state in which a write may be sent: the last poll showed at least
// what had been seen when it was sent, and is young; and nothing has happened since that
// a poll has to follow.
func (s *Store) permit(ctx context.Context) (sent, error) {
	for {
		s.mu.Lock()
		now := sent{s.polled.at, s.remote.reconnects(), s.doubts, s.evidence.Seen}
		young := time.Since(s.polled.at) < pollEvery && s.polled.reconnects == now.reconnects && s.polled.doubts == now.doubts
		wrong := s.stopped
		proven := s.proven
		s.mu.Unlock()
		if wrong != nil && proven {
			return now, wrong
		}
		if young {
			return now, nil
		}
		if err := s.poll(ctx, false); err != nil {
			return now, err
		}
	}
}

// doubt has a poll precede the next write.
func (s *Store) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts++
}

// poll asks the leader how far the register is. Unless it is forced, a caller makes do with
// a poll that was sent after it came.
func (s *Store) poll(ctx context.Context, force bool) error {
	came := time.Now()
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	select {
	case s.polling <- struct{}{}:
	case <-asking.Done():
		return asking.Err()
	}
	defer func() { <-s.polling }()
	s.mu.Lock()
	p := sent{time.Now(), s.remote.reconnects(), s.doubts, s.evidence.Seen}
	done := s.stopped == nil && s.polled.at.After(came) && s.polled.doubts == p.doubts
	s.mu.Unlock()
	if done && !force {
		return nil
	}
	found, err := s.remote.poll(asking)
	if err != nil {
		return err
	}
	return s.judge(ctx, found, p)
}

// judge draws the conclusion from a poll. Nothing but a decision ends what is proven.
func (s *Store) judge(ctx context.Context, found poll, p sent) error {
	s.mu.Lock()
	if s.deciding {
		found.raising = false
	}
	s.replicas = max(1, found.replicas)
	wrong, decided := s.evidence.check(s.bucket, found, p.seen), s.evidence.decided(found)
	if s.proven && wrong == nil {
		wrong = s.stopped
	}
	s.mu.Unlock()
	switch {
	case decided:
		return s.accept(ctx, found, p)
	case wrong != nil:
		return s.stop(wrong, !found.missing && !found.raising && s.isProof())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evidence.ID, s.evidence.Seen, s.evidence.Entries = found.id, max(s.evidence.Seen, found.last), found.entries
	s.first = found.first
	s.polled = p
	s.resume()
	return nil
}

// isProof reports whether what looks wrong is proof: at once if there is one copy of the
// stream, and after a while of it otherwise.
func (s *Store) isProof() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect.IsZero() {
		s.suspect = time.Now()
	}
	return s.replicas == 1 || time.Since(s.suspect) >= suspicion
}

// stop ends granting. It logs and counts once.
func (s *Store) stop(wrong *store.RegressionError, proven bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts++
	if s.stopped == nil {
		s.figures.Regressions++
		s.log.Error("register went back, granting stopped", zap.Error(wrong))
	}
	if s.stopped == nil || !s.proven {
		s.stopped, s.proven = wrong, proven
	}
	return s.stopped
}

// resume goes on granting. The caller holds the lock.
func (s *Store) resume() {
	s.suspect = time.Time{}
	if s.stopped != nil {
		s.stopped, s.proven = nil, false
		s.log.Info("register is complete again, granting goes on")
	}
}

// accept goes on with a register that was decided upon, if it holds at least what this
// process has cached. Tags that it lacks come back at the lowest first ID of new ones,
// where no table says which tags there are. Revisions that were cached may be those of
// other entries by now, so this process begins anew even if it had noticed nothing.
func (s *Store) accept(ctx context.Context, found poll, p sent) error {
	s.mu.Lock()
	s.doubts++ // no write meanwhile
	cache := maps.Clone(s.cache)
	s.mu.Unlock()
	entries, err := s.remote.list(ctx)
	if err != nil {
		return err
	}
	for tag, had := range cache {
		has, there := entries[tag]
		next := has.Next
		if !there || has.err != nil {
			next = found.first
		}
		if next < had.Next {
			s.mu.Lock()
			s.evidence.learn(found)
			s.proven = true
			s.stopped = &store.RegressionError{Bucket: s.bucket, Reason: fmt.Sprintf("was raised by too little: tag %s is at %d, and was granted up to %d", tag, next, had.Next)}
			err := s.stopped
			s.mu.Unlock()
			s.log.Error("register was raised by too little", zap.Error(err))
			return err
		}
	}
	s.mu.Lock()
	s.cache = make(map[string]record)
	s.evidence.adopt(found)
	s.first, s.polled = found.first, p
	s.polled.doubts = s.doubts
	s.resume()
	s.mu.Unlock()
	for tag, had := range cache {
		if _, there := entries[tag]; !there && s.cfg.Table == nil {
			had.Next = found.first
			_, err := s.remote.update(ctx, tag, had.encode(), 0)
			if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
				return s.tagError(tag, err)
			}
		}
	}
	return s.acceptWitness(ctx)
}

func (s *Store) acceptWitness(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	return s.cfg.Witness.Accept(ctx, s.cfg.JetStream, s.cfg.Prefix, s.cfg.Beside...)
}
