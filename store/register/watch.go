package register

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register/internal/guard"
)

const pollTimeout = 5 * time.Second

// Run implements [store.Reserver]: it polls the register once a second and writes
// the witness, so that if the register regresses, this process has missed few
// writes.
func (s *Register) Run(ctx context.Context, ask func(context.Context) error) {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.askOthers(ctx, ask) })
	if s.cfg.Witness != nil { // a slow disk must not delay polls
		beside.Go(func() { s.keepNoting(ctx) })
	}
	failing := false
	for ctx.Err() == nil {
		err := s.poll(ctx, true)
		s.leaveProof(ctx)
		wrong := errors.Is(err, store.ErrRegressed) || ctx.Err() != nil // logged elsewhere
		if err != nil && !wrong && !failing {
			s.cfg.Log.Warn("cannot poll register", zap.Error(err))
		}
		failing = err != nil && !wrong
		pause.For(ctx, guard.PollEvery)
	}
}

// keepNoting writes the witness once a second until ctx ends.
func (s *Register) keepNoting(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		err := s.note(ctx)
		if errors.Is(err, ErrWitness) && !failing {
			s.cfg.Log.Error("cannot write witness", zap.Error(err))
		}
		failing = errors.Is(err, ErrWitness)
		pause.For(ctx, guard.PollEvery)
	}
}

// note writes the record to the witness: of the register even while JetStream
// is unreachable, because the latest grants may precede an outage, and of the
// buckets in Beside their present state, if the register is the right one.
func (s *Register) note(ctx context.Context) error {
	if s.cfg.Witness == nil {
		return nil
	}
	s.noting.Lock()
	defer s.noting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	all := make(map[string]guard.Record)
	before, at := s.trusts(), s.remote.reconnects()
	for _, bucket := range s.cfg.Beside {
		// Unreachable, or another user's.
		if found, err := pollLeader(ctx, s.cfg.JetStream, bucket); err == nil && !found.Missing {
			all[bucket] = besideRecord(found, s.cfg.Witness.record(bucket))
		}
	}
	if !before || !s.trusts() || s.remote.reconnects() != at { // perhaps of another server
		clear(all)
	}
	var seen guard.Record
	s.judge(func(g *guard.Guard) { seen = g.Record() })
	for bucket, r := range all {
		r.First = seen.First
		all[bucket] = r
	}
	all[BucketName(s.cfg.Prefix)] = seen
	return s.cfg.Witness.note(all)
}

func (s *Register) trusts() (right bool) {
	s.judge(func(g *guard.Guard) { right = g.Trusts(s.moment()) })
	return right
}

// checkPolled returns an error if Run has not polled the register lately.
func (s *Register) checkPolled() (err error) {
	s.judge(func(g *guard.Guard) {
		if age := g.Age(s.now()); g.Stopped() == nil && age > guard.PollAge+pollTimeout {
			err = fmt.Errorf("register not read for %v", age.Round(time.Second))
		}
	})
	return err
}

// poll reads the register's state from its leader, and draws the conclusion.
// Unless forced, it accepts a poll that another caller sent after this call
// began.
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
	var sent guard.Permit
	var done bool
	s.judge(func(g *guard.Guard) { sent, done = g.Stamp(s.moment()), g.PolledSince(came) })
	if done && !force {
		return nil
	}
	found, err := s.remote.poll(pollCtx)
	if err != nil {
		return err
	}
	var c *guard.Comparison
	var cache map[string]storedEntry
	s.judge(func(g *guard.Guard) {
		if c, err = g.Polled(sent, found, s.moment()); c != nil {
			cache = maps.Clone(s.cache)
		}
	})
	if c != nil {
		err = s.compare(ctx, c, cache)
	}
	if wrong := new(store.RegressionError); errors.Is(err, guard.ErrRefused) && errors.As(err, &wrong) {
		s.cfg.Log.Error("register was not raised enough", zap.Error(wrong), zap.Int64("raise_by", wrong.Short))
		return errors.Join(err, s.note(ctx))
	}
	return err
}

// compare compares what was cached with the entries of the register, and then
// resumes or accepts the decision. Entries that the register lacks after a
// decision are written again first. After an error nothing is accepted, and the
// next poll is judged.
func (s *Register) compare(ctx context.Context, c *guard.Comparison, cache map[string]storedEntry) error {
	entries := make(map[string]listed)
	err := s.remote.each(ctx, func(tag string, e listed, _ time.Time) bool {
		if _, cached := cache[tag]; cached {
			entries[strings.Clone(tag)] = e
		}
		return true
	})
	if err != nil {
		return err
	}
	var missing []present
	for tag, had := range cache {
		switch has, there := entries[tag]; {
		case !there:
			missing = append(missing, present{name: tag, table: s.cfg.Table != nil})
			c.Entry(tag, had.Next, c.MissingAt())
		case has.err == nil: // an unreadable entry grants nothing
			c.Entry(tag, had.Next, has.Next)
		}
	}
	if s.judge(func(g *guard.Guard) { err = g.Compared(c) }); err != nil || !c.Decided {
		return err
	}
	put := &rewrite{Register: s, rule: acceptance{cache, c.MissingAt()}, permission: accepting{s, c}}
	for batch := range slices.Chunk(missing, kv.MaxBatch) { // one permit at a time
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		err := put.write(ctx, batch)
		cancel()
		if err != nil {
			return err
		}
	}
	// A note in between would write the record of before the decision over
	// what the witness has accepted.
	s.noting.Lock()
	defer s.noting.Unlock()
	var accepted guard.Record
	s.judge(func(g *guard.Guard) { accepted = g.RecordAfter(c) })
	if err := s.acceptWitness(ctx, accepted); err != nil && !errors.Is(err, ErrWitness) {
		return err // what cannot be written is logged, and accepted by the next start
	}
	s.judge(func(g *guard.Guard) {
		if err = g.Accept(c); err == nil {
			s.cache = make(map[string]storedEntry)
		}
	})
	return err
}

// acceptance is the rule of a loader that accepts a decision: a tag that a raised
// register lacks is put back with its order, at the lowest first ID of new tags;
// in front of a table as a removed tag, because the rows decide which tags exist.
type acceptance struct {
	cache map[string]storedEntry
	next  int64
}

func (a acceptance) apply(p present) (entry, Effect, error) {
	if p.had.revision > 0 { // another loader was faster
		return p.had.entry, Effect{}, nil
	}
	e := a.cache[p.name].entry
	e.Next, e.Removed = a.next, e.Removed || p.table
	return e, Effect{}, nil
}

// accepting is the permission of a loader that accepts a decision. It needs one
// as for any write: a second restore and raise may have come since the decision
// was found. An answer that comes too late is a fault, because what it has put
// back may be granted.
type accepting struct {
	*Register
	c *guard.Comparison
}

func (a accepting) permit(ctx context.Context) (guard.Permit, error) {
	var sent guard.Permit
	var fresh bool
	a.judge(func(g *guard.Guard) { sent, fresh = g.Stamp(a.moment()), g.IsFresh(a.c, a.moment()) })
	if fresh {
		return sent, nil
	}
	found, err := a.remote.poll(ctx)
	if err != nil {
		return sent, err
	}
	a.judge(func(g *guard.Guard) { err = g.Renewed(a.c, sent, found) })
	return sent, err
}

func (a accepting) confirm(guard.Permit, uint64) error {
	if a.c.IsLate(a.moment()) {
		return guard.ErrLate
	}
	return nil
}
