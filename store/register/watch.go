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
		err := errors.Join(s.poll(ctx, true), s.note(ctx))
		wrong := errors.Is(err, store.ErrRegressed) || ctx.Err() != nil // which is logged
		switch {
		case err == nil || wrong || failing:
		case errors.Is(err, ErrWitness):
			s.log.Error("cannot write witness", zap.Error(err))
		default:
			s.log.Warn("cannot poll register", zap.Error(err))
		}
		failing = err != nil && !wrong
		pause.For(ctx, pollEvery)
	}
}

// note writes what was seen to the witness: of the register even while JetStream is away,
// for the latest grants may have come right before that, and of the buckets beside it what
// they answer.
func (s *Store) note(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all := make(map[string]evidence)
	var away error
	for _, bucket := range s.cfg.Beside {
		found, err := ask(ctx, s.cfg.JetStream, bucket)
		if err != nil {
			away = errors.Join(away, err)
			continue
		}
		all[bucket] = evidence{Seen: max(found.last, s.cfg.Witness.evidence(bucket).Seen)}
	}
	s.mu.Lock()
	all[s.bucket] = s.evidence.clone()
	s.mu.Unlock()
	return errors.Join(s.cfg.Witness.note(all), away)
}

// permit returns the state in which a write may be sent: the last poll showed at least
// what had been seen when it was sent, and is young; and nothing has happened since that
// a poll has to follow. What is written has to be read or computed after that.
func (s *Store) permit(ctx context.Context) (sent, error) {
	for age := pollEvery; ; age = pollAge / 2 { // after its own poll, which may have been slow
		s.mu.Lock()
		now := s.polled
		now.seen = s.evidence.Seen
		valid := time.Since(now.at) < age && now.doubts == s.doubts && now.reconnects == s.remote.reconnects()
		wrong, proven := s.stopped, s.proven
		s.mu.Unlock()
		if wrong != nil && proven {
			return now, wrong
		}
		if valid {
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
	resumes := s.stopped != nil
	s.mu.Unlock()
	switch {
	case decided:
		return s.accept(ctx, found, p)
	case wrong != nil:
		return s.stop(wrong, !found.missing && !found.raising && s.isProof())
	case resumes: // others may have lifted the sequence meanwhile
		if _, err := s.compare(ctx, 0); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evidence.ID, s.evidence.Seen, s.evidence.Entries = found.id, max(s.evidence.Seen, found.last), found.entries
	s.evidence.First = max(s.evidence.First, found.first)
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
	switch {
	case s.stopped != nil:
	case wrong.Reason == beingRaised:
		s.log.Info("granting paused while tags are raised")
	default:
		s.figures.Regressions++
		s.log.Error("register regressed; granting stopped", zap.Error(wrong))
	}
	if s.stopped == nil || !s.proven || proven {
		s.stopped, s.proven = wrong, proven
	}
	return s.stopped
}

// resume goes on granting. The caller holds the lock.
func (s *Store) resume() {
	s.suspect = time.Time{}
	if s.stopped != nil {
		s.stopped, s.proven = nil, false
		s.log.Info("register complete again; granting resumed")
	}
}

// compare reports whether the register holds at least what this process has cached: an
// entry that is missing counts as lowest. It returns the records that are missing. The
// error is a proof, or the register cannot be read.
func (s *Store) compare(ctx context.Context, lowest int64) (missing map[string]record, err error) {
	s.mu.Lock()
	s.doubts++ // no write meanwhile
	cache := maps.Clone(s.cache)
	s.mu.Unlock()
	entries, err := s.remote.list(ctx)
	if err != nil {
		return nil, err
	}
	missing = make(map[string]record)
	for tag, had := range cache {
		has, there := entries[tag]
		if there && has.err != nil {
			continue // it grants nothing
		}
		next := has.Next
		if !there {
			missing[tag], next = had, lowest
		}
		if next < had.Next {
			return nil, s.stop(&store.RegressionError{Bucket: s.bucket, Reason: fmt.Sprintf("has tag %s at %d, was granted up to %d", tag, next, had.Next)}, true)
		}
	}
	return missing, nil
}

// accept goes on with a register that was decided upon, if it was raised by enough for all
// that this process has cached. Entries that it lacks come back with their order, at the
// lowest first ID of new tags; in front of a table as those of removed tags, for the rows
// say which tags there are. Revisions that were cached may be those of other entries by
// now, so the cache is emptied even if nothing was noticed.
func (s *Store) accept(ctx context.Context, found poll, p sent) error {
	s.mu.Lock()
	first := s.evidence.First
	s.mu.Unlock()
	var missing map[string]record
	var err error
	if found.first <= first {
		err = s.stop(&store.RegressionError{Bucket: s.bucket, Reason: fmt.Sprintf("has lowest first ID %d for new tags, was %d", found.first, first)}, true)
	} else {
		missing, err = s.compare(ctx, found.first)
	}
	if errors.Is(err, store.ErrRegressed) {
		s.mu.Lock()
		s.evidence.learn(found) // or a restart would take it for a new one
		s.mu.Unlock()
		s.log.Error("register was not raised enough", zap.Error(err))
		return errors.Join(err, s.note(ctx))
	}
	if err != nil {
		return err
	}
	for tag, had := range missing {
		had.Next, had.Removed = found.first, had.Removed || s.cfg.Table != nil
		_, err := s.remote.update(ctx, tag, had.encode(), 0)
		if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return s.tagError(tag, err)
		}
	}
	if w := s.cfg.Witness; w != nil {
		if err := w.Accept(ctx, s.cfg.JetStream, s.cfg.Prefix, s.cfg.Beside...); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache, s.lower = make(map[string]record), make(map[string]time.Time)
	s.evidence.adopt(found)
	s.polled = p
	s.polled.doubts = s.doubts
	s.resume()
	return nil
}
