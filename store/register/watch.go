package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
)

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

// Run implements [store.Reserver]: it polls the register once a second and writes
// the witness, so that if the register regresses, this process has missed few
// writes.
func (s *Register) Run(ctx context.Context) {
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

// note writes the record to the witness: of the register even while JetStream
// is unreachable, because the latest grants may precede an outage, and of the
// buckets in Beside their present state.
func (s *Register) note(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	s.noting.Lock()
	defer s.noting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	all := make(map[string]record)
	var away error
	for _, bucket := range s.cfg.Beside {
		found, err := pollLeader(ctx, s.cfg.JetStream, bucket)
		if err != nil {
			away = errors.Join(away, err)
			continue
		}
		all[bucket] = record{Position: kv.Position{Last: max(found.Last, s.cfg.Witness.record(bucket).Last)}}
	}
	s.mu.Lock()
	all[s.bucket] = s.record.clone()
	s.mu.Unlock()
	return errors.Join(s.cfg.Witness.note(all), away)
}

// checkPolled returns an error if Run has not polled the register lately.
func (s *Register) checkPolled() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.since(s.polled.at); s.stopped == nil && age > pollAge+pollTimeout {
		return fmt.Errorf("register not read for %v", age.Round(time.Second))
	}
	return nil
}

// doubt requires a poll before the next write.
func (s *Register) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts++
}

// overtake requires a poll before the next write, and discards the writes in
// flight. The caller holds the lock.
func (s *Register) overtake() {
	s.doubts++
	s.epoch++
}

// poll reads the register's state from its leader. Unless forced, it accepts a
// poll that another caller sent after this call began.
func (s *Register) poll(ctx context.Context, force bool) error {
	came := s.now()
	pollCtx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	select {
	case s.polling <- struct{}{}:
	case <-pollCtx.Done():
		return pollCtx.Err()
	}
	defer func() { <-s.polling }()
	s.mu.Lock()
	p := s.sending()
	done := s.stopped == nil && s.polled.at.After(came) && s.polled.doubts == p.doubts
	s.mu.Unlock()
	if done && !force {
		return nil
	}
	found, err := s.ask(pollCtx)
	if err != nil {
		return err
	}
	return s.judge(ctx, found, p)
}

// ask polls. To an administrator who raises the tags, the register is not being
// raised.
func (s *Register) ask(ctx context.Context) (poll, error) {
	found, err := s.remote.poll(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	found.raising = found.raising && !s.deciding
	return found, err
}

// judge draws the conclusion from a poll. Only a decision ends a proven
// regression.
func (s *Register) judge(ctx context.Context, found poll, p permit) error {
	s.mu.Lock()
	if found.raising {
		s.short = 0
	}
	s.replicas = max(1, found.replicas)
	decided, wrong := s.record.assess(s.bucket, found, p.seen.Last)
	if s.proven && !decided && wrong == nil {
		wrong = s.stopped
	}
	resumes := s.stopped != nil
	s.mu.Unlock()
	switch {
	case decided:
		return s.accept(ctx, found, p, wrong)
	case wrong != nil:
		return s.stop(wrong, !found.missing && !found.raising && s.isProof())
	case resumes: // others may have lifted the sequence since
		if _, _, err := s.compare(ctx, 0); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proven { // since the poll was sent
		return s.stopped
	}
	found.Last = max(found.Last, s.record.Last) // more may have been written since
	s.record.Position, s.record.Entries = found.Position, found.entries
	s.record.First = max(s.record.First, found.first)
	s.polled, s.full = p, found.full
	s.resume()
	return nil
}

// isProof reports whether a fault is proof: at once on a stream without
// replicas, otherwise once it has lasted for suspicion.
func (s *Register) isProof() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect.IsZero() {
		s.suspect = s.now()
	}
	return s.replicas == 1 || s.since(s.suspect) >= suspicion
}

// prove stops granting because of an entry or an answer that contradicts what
// was seen since an epoch. A state from before a decision proves nothing after
// it.
func (s *Register) prove(epoch int, wrong *store.RegressionError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch < s.decided {
		return errOvertaken
	}
	return s.stopNow(wrong, true)
}

// stop ends granting. It logs and counts once.
func (s *Register) stop(wrong *store.RegressionError, proven bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopNow(wrong, proven)
}

// stopNow is stop for a caller who holds the lock.
func (s *Register) stopNow(wrong *store.RegressionError, proven bool) error {
	s.overtake()
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
func (s *Register) resume() {
	s.suspect = time.Time{}
	if s.stopped != nil {
		s.stopped, s.proven, s.short = nil, false, 0
		s.log.Info("register complete again; granting resumed")
	}
}

// compare checks that the register holds at least the entries that this process
// has cached: a missing entry counts as lowest. It returns the missing entries,
// and the epoch that it begins. The error is proof, or the register is
// unreadable.
func (s *Register) compare(ctx context.Context, lowest int64) (missing map[string]storedEntry, epoch int, err error) {
	s.mu.Lock()
	s.overtake() // no write during the comparison
	epoch = s.epoch
	cache := maps.Clone(s.cache)
	s.mu.Unlock()
	entries, err := s.list(ctx)
	if err != nil {
		return nil, epoch, err
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
		return nil, epoch, s.stop(wrong, true)
	}
	return missing, epoch, nil
}

// accept resumes with a register that has a new decision, if it was raised
// above all entries that this process has cached. Entries that it lacks are
// written again with their order, at the lowest first ID of new tags; in front
// of a table as removed tags, because the rows decide which tags exist. Cached
// revisions may by now be those of other entries, so the cache is cleared even
// if nothing was wrong.
//
// wrong is the fault of the decision, or nil. After an error nothing is
// accepted, and the next poll is judged.
func (s *Register) accept(ctx context.Context, found poll, p permit, wrong *store.RegressionError) error {
	var missing map[string]storedEntry
	var epoch int
	var err error
	if wrong != nil {
		err = s.stop(wrong, true)
	} else {
		missing, epoch, err = s.compare(ctx, found.first)
	}
	if wrong := new(store.RegressionError); errors.As(err, &wrong) {
		s.mu.Lock()
		s.record.learn(found) // or a restart would take it for a new decision
		s.short = wrong.Short
		s.mu.Unlock()
		s.log.Error("register was not raised enough", zap.Error(err), zap.Int64("raise_by", wrong.Short))
		return errors.Join(err, s.note(ctx))
	}
	for tag, had := range missing {
		if err == nil {
			p, err = s.putBack(ctx, found, p, tag, had)
		}
	}
	if err != nil {
		return err
	}
	// A note in between would write the record of before the decision over
	// what the witness has accepted.
	s.noting.Lock()
	defer s.noting.Unlock()
	s.mu.Lock()
	accepted := s.record.clone()
	s.mu.Unlock()
	accepted.adopt(found)
	if err := s.acceptWitness(ctx, accepted); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch { // stopped since the comparison
		return errOvertaken
	}
	s.cache, s.lower = make(map[string]storedEntry), make(map[string]time.Time)
	s.record, s.decided = accepted, epoch
	s.polled = p
	s.resume()
	return nil
}

// putBack writes the entry of a tag that a raised register lacks. It needs a
// permit as any write: a second restore and raise may have come since the
// decision was found. It returns the permit for the next entry.
func (s *Register) putBack(ctx context.Context, found poll, p permit, tag string, had storedEntry) (permit, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	p, err := s.renew(ctx, found, p)
	if err != nil {
		return p, err
	}
	had.Next, had.Removed = found.first, had.Removed || s.cfg.Table != nil
	switch _, err = s.remote.update(ctx, tag, had.encode(), 0); {
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch): // another loader was faster
		err = nil
	case err == nil && s.late(p):
		err = errLate
	}
	return p, s.tagError(tag, err)
}

// errChanged reports a register that is no longer the one that was judged.
var errChanged = errors.New("the register changed while a decision was accepted")

// renew returns p if it permits a write, and polls again if not. The register
// must still be the one that was found.
func (s *Register) renew(ctx context.Context, found poll, p permit) (permit, error) {
	s.mu.Lock()
	valid, next := s.permits(p, pollAge/2), s.sending()
	s.mu.Unlock()
	if valid {
		return p, nil
	}
	switch now, err := s.ask(ctx); {
	case err != nil:
		return p, err
	case !now.follows(found):
		return p, errChanged
	}
	return next, nil
}
