package register

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register/internal/guard"
)

// A raise concerns every tag, because the register may have regressed: some
// grants are in no entry. The mark in the metadata of the stream stops all
// grants. Once no permit from before the mark is valid, the entries are raised,
// and then a decision replaces the mark. docs/proofs/register.md has the argument.

// OpenToRaise opens a register that may have regressed, or is missing, to raise
// it, which needs the config bucket. It creates a missing register with the
// identity of the installation's, and marked as being raised: no loader grants
// from it before the decision. The first sequence of its stream is the given
// number, above all sequences of earlier streams, so that no late write to one
// of those can be accepted. Unless alone, it first waits until no permit is
// valid: a loader that lacks the entry of a tag could create it in the new
// register, and an answer from there is above all that it has seen.
func OpenToRaise(ctx context.Context, cfg Config, replicas int, first uint64, alone bool) (*Register, error) {
	found, err := pollLeader(ctx, cfg.JetStream, BucketName(cfg.Prefix))
	mark := ""
	if err == nil && found.Missing {
		if !alone {
			pause.For(ctx, guard.PollAge)
		}
		mark, err = createMarked(ctx, cfg, replicas, first)
	}
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.restart(ctx); err != nil {
		return nil, err
	}
	s.born = mark
	return s, nil
}

// createMarked creates the bucket, and returns its mark.
func createMarked(ctx context.Context, cfg Config, replicas int, first uint64) (mark string, err error) {
	agreed, err := agreement.Open(ctx, cfg.JetStream, cfg.Prefix)
	if err != nil {
		return "", err
	}
	id, err := agreed.Agree(ctx, ConfigKey, nuid.Next())
	if err != nil {
		return "", err
	}
	mark = nuid.Next() + " 1"
	marked := map[string]string{metaID: id, metaRaising: mark}
	return mark, kv.Ensure(ctx, cfg.JetStream, bucket(cfg.Prefix, replicas, first, marked))
}

// restart makes the present state of the register, which may have regressed,
// that of an administrator who raises it.
func (s *Register) restart(ctx context.Context) error {
	found, err := s.remote.poll(ctx)
	if err != nil {
		return err
	}
	s.judge(func(g *guard.Guard) {
		g.Reset(found)
		s.cache = make(map[string]storedEntry)
	})
	return nil
}

// Survey opens a register to see what a rule would do: for Preview, Unlisted and
// Others only. A missing register reads as an empty one, and one that regressed
// as it is. Survey writes nothing.
func Survey(ctx context.Context, cfg Config) (*Register, error) {
	found, err := pollLeader(ctx, cfg.JetStream, BucketName(cfg.Prefix))
	if err != nil {
		return nil, err
	}
	if found.Missing {
		return newStore(cfg, noBucket{}), nil
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return s, s.restart(ctx)
}

// noBucket is a bucket that is missing. It can only be listed.
type noBucket struct{ remote }

func (noBucket) each(context.Context, func(string, listed, time.Time) bool) error { return nil }

// Summary is what a register's stream shows of its decisions, and of the time.
type Summary struct {
	Missing bool
	Floor   int64     // lowest first ID of names without an entry
	Marked  int64     // target of an unfinished raise; 0 if there is none
	Decided time.Time // the latest decision; zero if unknown

	ID        string   // of the stream
	Decisions []string // all decisions, the latest last
	Entries   uint64   // of tags and removed tags
}

// Knows reports whether the register has all of these decisions.
func (s Summary) Knows(decisions []string) bool {
	return !slices.ContainsFunc(decisions, func(d string) bool { return !slices.Contains(s.Decisions, d) })
}

// Look returns the state of a register. It changes nothing.
func Look(ctx context.Context, js jetstream.JetStream, p messages.Prefix) (Summary, error) {
	found, err := pollLeader(ctx, js, BucketName(p))
	st := Summary{Missing: found.Missing, Floor: max(1, found.First), Decided: found.Decided, ID: found.ID, Decisions: found.Decisions, Entries: found.Entries}
	if found.Mark != "" {
		st.Marked = max(1, found.Target)
	}
	return st, err
}
