package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// A register that went back may look complete to a loader that has seen none of
// the lost writes. So loaders ask all other processes what they know before they
// grant, and check what they hear against the register. A loader that has seen the
// loss itself leaves proof for the loaders after it.

// Asked implements [store.Reserver].
func (s *Register) Asked() <-chan struct{} { return s.asked }

// askAgain is the pause after a question that failed.
const askAgain = time.Second

// askOthers asks other processes whenever that is due, until ctx ends. A poll
// judges what was heard before anything is granted.
func (s *Register) askOthers(ctx context.Context, ask func(context.Context) error) {
	if ask == nil {
		s.askedOnce.Do(func() { close(s.asked) })
		return
	}
	s.judge((*guard.Guard).AskFirst)
	s.compareBeside(ctx)
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-s.unasked:
		}
		round := 0
		s.judge(func(g *guard.Guard) { round = g.Unasked() })
		if round == 0 {
			continue
		}
		err := s.askOnce(ctx, ask)
		s.judge(func(g *guard.Guard) {
			if err == nil {
				g.Asked(round)
			}
		})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.askedOnce.Do(func() { close(s.asked) })
		default:
			if !failing {
				s.cfg.Log.Warn("cannot ask other processes what they know", zap.Error(err))
			}
			pause.For(ctx, askAgain)
		}
		failing = err != nil
	}
}

// askOnce asks, reads what others have left since, and polls, which judges all
// that was heard.
func (s *Register) askOnce(ctx context.Context, ask func(context.Context) error) error {
	if err := ask(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	left, err := s.remote.proof(ctx)
	if errors.Is(err, errUnreadable) { // it proves nothing
		s.cfg.Log.Error("proof ignored", zap.Error(err))
	} else if err != nil {
		return err
	}
	s.judge(func(g *guard.Guard) { g.Left(left) })
	if err := s.poll(ctx, true); !errors.Is(err, store.ErrRegressed) { // it was asked, and has stopped
		return err
	}
	return nil
}

// Hear implements [store.Reserver].
func (s *Register) Hear(ctx context.Context, c store.Claim) {
	err := s.hear(ctx, c)
	if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrRegressed) || errors.Is(err, guard.ErrBehind) {
		return
	}
	s.complains.Do(func() {
		s.cfg.Log.Warn("cannot check the claim of another process", zap.String("process", c.By), zap.Error(err))
	})
}

func (s *Register) hear(ctx context.Context, c store.Claim) error {
	var higher bool
	s.judge(func(g *guard.Guard) {
		g.Hear(c)
		higher = c.Tag != "" && g.Stopped() == nil && g.Counts(c) && c.Next > s.cache[c.Tag].Next
	})
	if !higher || checkName(c.Tag) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	_, err := s.read(ctx, c.Tag, c)
	return err
}

// verify checks the claims that come with loads of a tag. If a worker was granted
// more than the cached entry shows, the entry is read from the leader. Often that
// saves a write that would fail, because another loader has granted the range.
func (s *Register) verify(ctx context.Context, tag string, wants []store.Want) error {
	for _, w := range wants {
		w.Claim.Tag = tag
		if err := s.hear(ctx, w.Claim); err != nil {
			return s.tagError(tag, err)
		}
	}
	return nil
}

// Claims implements [store.Reserver].
func (s *Register) Claims() (all []store.Claim) {
	s.judge(func(g *guard.Guard) { all = g.Claims() })
	return all
}

// leftProof is the value of [agreement.ProofKey].
type leftProof struct {
	guard.Proof

	By   string    `json:"by"`   // the host
	Time time.Time `json:"time"` // by its clock
}

// leaveProof leaves proof for other loaders, once there is some. A user of
// version 0.2.0's nats.conf may not; then the witness has to do.
func (s *Register) leaveProof(ctx context.Context) {
	var proof *guard.Proof
	s.judge(func(g *guard.Guard) { proof = g.Proof(s.moment()) })
	if proof == nil || proof == s.left || s.now().Sub(s.leaving) < leaveAgain {
		return
	}
	s.leaving = s.now()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	host, _ := os.Hostname() // only informs people
	err := s.remote.leave(ctx, leftProof{*proof, host, time.Now()})
	if err == nil {
		s.left = proof
	} else {
		s.cfg.Log.Warn("cannot leave proof that the register regressed", zap.Error(err))
	}
}

// leaveAgain is the pause after an attempt to leave proof: a user without the right
// gets no answer.
const leaveAgain = time.Minute

func (b bucketOf) leave(ctx context.Context, p leftProof) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	agreed, err := agreement.Open(ctx, b.js, b.prefix)
	if err != nil {
		return err
	}
	return agreed.Edit(ctx, agreement.ProofKey, func(string, bool) (string, error) { return string(value), nil })
}

func (b bucketOf) proof(ctx context.Context) (*guard.Proof, error) {
	value, found, err := agreement.Lookup(ctx, b.js, b.prefix, agreement.ProofKey)
	if err != nil || !found {
		return nil, err
	}
	var left leftProof
	if err := json.Unmarshal([]byte(value), &left); err != nil {
		return nil, fmt.Errorf("%w: bucket %s, key %s: %w", errUnreadable, agreement.BucketName(b.prefix), agreement.ProofKey, err)
	}
	return &left.Proof, nil
}

// errUnreadable means that what was left is no proof.
var errUnreadable = errors.New("unreadable proof")

// compareBeside compares the settings beside the register with the witness, before
// anything is granted. If they went back, granting stops, and a decision ends that. A
// replica may lag, so a fault on a replicated bucket counts once it has lasted, and no
// answer is no evidence. The witness' note of worker IDs is for embedded servers and
// for administrators, because no tag depends on it.
func (s *Register) compareBeside(ctx context.Context) {
	bucket := agreement.BucketName(s.cfg.Prefix)
	if s.cfg.Witness == nil || !slices.Contains(s.cfg.Beside, bucket) {
		return
	}
	for began := s.now(); ctx.Err() == nil && !s.hasStopped(); pause.For(ctx, guard.PollEvery) {
		replicas, err := s.cfg.Witness.compareBucket(ctx, s.cfg.JetStream, bucket)
		wrong, regressed := errors.AsType[*store.RegressionError](err)
		switch {
		case err == nil:
			return
		case !regressed:
			began = s.now()
			s.complains.Do(func() { s.cfg.Log.Warn("cannot compare the settings with the witness", zap.Error(err)) })
		case replicas == 1 || s.now().Sub(began) >= guard.Suspicion:
			s.judge(func(g *guard.Guard) { g.Stop(wrong) })
		}
	}
}
