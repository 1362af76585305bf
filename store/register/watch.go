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

// sent is the state in which a poll or a write was sent.
type sent struct {
	at         time.Time
	reconnects uint64
	doubts     int
	seen       uint64
}

// The register is polled at least every pollEvery. A range is granted only
// after a poll younger than pollAge: no restore of a stream is as short. A
// connection that is paused for longer has to start over.
const (
	pollEvery   = time.Second
	pollAge     = 5 * time.Second
	pollTimeout = 5 * time.Second

	// suspicion is the time after which a fault on a replicated stream is
	// proof. A leader that lost the other servers answers from its own state
	// until it detects that, after at most 20 s. Nothing is granted during that
	// time.
	suspicion = 25 * time.Second
)

// Run implements [store.Loader]: it polls the register once a second and writes
// the witness, so that if the register regresses, this process has missed few
// writes.
func (s *Store) Run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := errors.Join(s.poll(ctx, true), s.note(ctx))
		wrong := errors.Is(err, store.ErrRegressed) || ctx.Err() != nil // logged elsewhere
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

// note writes the evidence to the witness: of the register even while JetStream
// is unreachable, because the latest grants may precede an outage, and of the
// buckets in Beside their present state.
func (s *Store) note(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	all := make(map[string]evidence)
	var away error
	for _, bucket := range s.cfg.Beside {
		found, err := pollLeader(ctx, s.cfg.JetStream, bucket)
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

// permit returns the state in which a write may be sent. The last poll returned
// at least as much as had been seen, is recent, and nothing has happened since
// that requires another poll. The caller must read or compute its write after
// that.
func (s *Store) permit(ctx context.Context) (sent, error) {
	// A permit right after its own poll may be older: that poll may have been
	// slow.
	for age := pollEvery; ; age = pollAge / 2 {
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

// checkPolled returns an error if Run has not polled the register lately.
func (s *Store) checkPolled() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := time.Since(s.polled.at); s.stopped == nil && age > pollAge+pollTimeout {
		return fmt.Errorf("register not read for %v", age.Round(time.Second))
	}
	return nil
}

// doubt requires a poll before the next write.
func (s *Store) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts++
}

// poll reads the register's state from its leader. Unless forced, it accepts a
// poll that another caller sent after this call began.
func (s *Store) poll(ctx context.Context, force bool) error {
	came := time.Now()
	pollCtx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	select {
	case s.polling <- struct{}{}:
	case <-pollCtx.Done():
		return pollCtx.Err()
	}
	defer func() { <-s.polling }()
	s.mu.Lock()
	p := sent{time.Now(), s.remote.reconnects(), s.doubts, s.evidence.Seen}
	done := s.stopped == nil && s.polled.at.After(came) && s.polled.doubts == p.doubts
	s.mu.Unlock()
	if done && !force {
		return nil
	}
	found, err := s.remote.poll(pollCtx)
	if err != nil {
		return err
	}
	return s.judge(ctx, found, p)
}

// judge draws the conclusion from a poll. Only a decision ends a proven
// regression.
func (s *Store) judge(ctx context.Context, found poll, p sent) error {
	s.mu.Lock()
	if s.deciding {
		found.raising = false
	}
	if found.raising {
		s.short = 0
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
	case resumes: // others may have lifted the sequence since
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

// isProof reports whether a fault is proof: at once on a stream without
// replicas, otherwise once it has lasted for suspicion.
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
		s.log.Warn("granting paused while tags are raised")
	default:
		s.figures.Regressions++
		s.log.Error("register regressed; granting stopped", zap.Error(wrong))
	}
	if s.stopped == nil || !s.proven || proven {
		s.stopped, s.proven = wrong, proven
	}
	return s.stopped
}

// resume ends a stop. The caller holds the lock.
func (s *Store) resume() {
	s.suspect = time.Time{}
	if s.stopped != nil {
		s.stopped, s.proven, s.short = nil, false, 0
		s.log.Info("register complete again; granting resumed")
	}
}

// compare checks that the register holds at least the entries that this process
// has cached: a missing entry counts as lowest. It returns the missing entries.
// The error is proof, or the register is unreadable.
func (s *Store) compare(ctx context.Context, lowest int64) (missing map[string]storedEntry, err error) {
	s.mu.Lock()
	s.doubts++ // no write during the comparison
	cache := maps.Clone(s.cache)
	s.mu.Unlock()
	entries, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	missing = make(map[string]storedEntry)
	wrong := &store.RegressionError{Bucket: s.bucket}
	for tag, had := range cache {
		has, there := entries[tag]
		if there && has.err != nil {
			continue // it grants nothing
		}
		next := has.Next
		if !there {
			missing[tag], next = had, lowest
		}
		if short := had.Next - next; short > wrong.Short {
			wrong.Reason, wrong.Short = fmt.Sprintf("has tag %s at %d, was granted up to %d", tag, next, had.Next), short
		}
	}
	if wrong.Short > 0 {
		return nil, s.stop(wrong, true)
	}
	return missing, nil
}

// accept resumes with a register that has a new decision, if it was raised
// above all entries that this process has cached. Entries that it lacks are
// written again with their order, at the lowest first ID of new tags; in front
// of a table as removed tags, because the rows decide which tags exist. Cached
// revisions may by now be those of other entries, so the cache is cleared even
// if nothing was wrong.
func (s *Store) accept(ctx context.Context, found poll, p sent) error {
	s.mu.Lock()
	first := s.evidence.First
	s.mu.Unlock()
	var missing map[string]storedEntry
	var err error
	if found.first <= first {
		err = s.stop(&store.RegressionError{Bucket: s.bucket, Reason: fmt.Sprintf("has lowest first ID %d for new tags, was %d", found.first, first), Short: first + 1 - found.first}, true)
	} else {
		missing, err = s.compare(ctx, found.first)
	}
	if wrong := new(store.RegressionError); errors.As(err, &wrong) {
		s.mu.Lock()
		s.evidence.learn(found) // or a restart would take it for a new decision
		s.short = wrong.Short
		s.mu.Unlock()
		s.log.Error("register was not raised enough", zap.Error(err), zap.Int64("raise_by", wrong.Short))
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
	s.cache, s.lower = make(map[string]storedEntry), make(map[string]time.Time)
	s.evidence.adopt(found)
	s.polled = p
	s.polled.doubts = s.doubts
	s.resume()
	return nil
}
