package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register/internal/guard"
)

var (
	// ErrOther reports that another administrator is raising the tags.
	ErrOther = errors.New("another command is raising all tags; retry when it has ended")

	// ErrUnmarked means that the mark is gone: the register was restored, or
	// another command has decided. The caller starts over, unless it counts by a
	// number, which would count from another state.
	ErrUnmarked = errors.New("the mark of the raise is gone: the register was restored, or another command has decided; run it again")
)

// Mark is the mark of a raise in the metadata of the register's stream. While it
// stands, no loader grants, but the register that has made it writes.
type Mark struct {
	s      *Register
	text   string
	target int64
	floor  int64 // the highest that this command has read or written
}

// MarkOptions are the options of [Register.Mark].
type MarkOptions struct {
	// Over is for a raise of all tags, which may replace the mark of another
	// command. It adopts the present state of the register, which may have
	// regressed.
	Over bool

	// Alone means that no other process is connected, so no permits are valid.
	Alone bool
}

// Mark marks the register as being raised to a target, which has to lie above
// every earlier one. A mark of an unfinished raise is replaced by a higher
// target, because entries may have been raised to that of the other. Then Mark
// waits until no write with an earlier permit can be granted any more. Errors:
// [ErrRaising] if there is a mark that may not be replaced, [ErrOther],
// [ErrUnmarked], and [store.ErrBadTag] for a target that is too low.
func (s *Register) Mark(ctx context.Context, target int64, o MarkOptions) (*Mark, error) {
	s.judge((*guard.Guard).IgnoreMarks)
	if o.Over {
		if err := s.restart(ctx); err != nil {
			return nil, err
		}
	}
	floor, err := agreement.Floor(ctx, s.cfg.JetStream, s.cfg.Prefix)
	if err != nil {
		return nil, err
	}
	m := &Mark{s: s, target: target}
	born := false // no permit was ever valid for it
	err = s.change(ctx, func(meta map[string]string, found guard.Poll) error {
		born = found.Mark != "" && found.Mark == s.born
		if found.Mark != "" && !o.Over {
			return ErrRaising
		}
		if target <= found.First && target < math.MaxInt64 {
			return fmt.Errorf("%w: raise to %d, but new tags begin at %d already", store.ErrBadTag, target, found.First)
		}
		if found.Mark != "" {
			m.target = max(target, store.Beyond(found.Target, 1))
		}
		m.text = nuid.Next() + " " + strconv.FormatInt(m.target, 10)
		meta[metaRaising] = m.text
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.floor = max(floor, m.target)
	if !o.Alone && !born {
		pause.For(ctx, guard.PollAge)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return m, m.Check(ctx)
}

// Target returns the target, which is above the wanted one if the mark of
// another command was replaced.
func (m *Mark) Target() int64 { return m.target }

// Check returns an error unless the mark stands.
func (m *Mark) Check(ctx context.Context) error {
	found, err := m.s.remote.poll(ctx)
	if err != nil || found.Mark == m.text {
		return err
	}
	return unmarked(found)
}

// unmarked is the error for a poll without the own mark.
func unmarked(found guard.Poll) error {
	if found.Mark != "" {
		return ErrOther
	}
	return ErrUnmarked
}

// Decision is what [Mark.Finish] writes.
type Decision struct {
	Time    time.Time // zero if unknown
	Earlier []string  // earlier decisions that the register may lack
	Ignored []string  // instances whose claims loaders ignore from then on
}

// Finish ends the raise. If the mark is gone or the work under it failed, it
// returns that error, and nothing is decided. Otherwise it writes a decision:
// stopped loaders resume, and names without an entry begin at the target,
// because a tag of such a name may have been lost. Then it announces the decision
// to workers. After an error the raise has to be repeated.
func (m *Mark) Finish(ctx context.Context, worked error, d Decision) error {
	gone := m.Check(ctx)
	if worked != nil && !errors.Is(gone, ErrUnmarked) && !errors.Is(gone, ErrOther) {
		return worked
	}
	if gone != nil {
		return gone
	}
	if err := m.decide(ctx, d); err != nil {
		return err
	}
	if err := m.checkFloor(ctx); err != nil {
		return err
	}
	return Announce(ctx, m.s.cfg.JetStream, m.s.cfg.Prefix)
}

// decide writes a new decision to the metadata of the stream, with the identity
// of the installation's register, after the floor has been written to the
// installation's config. It reads the decision back, because an update of a
// stream has no condition.
func (m *Mark) decide(ctx context.Context, d Decision) error {
	agreed, err := agreement.Open(ctx, m.s.cfg.JetStream, m.s.cfg.Prefix)
	if err != nil {
		return err
	}
	if err := agreed.RaiseFloor(ctx, m.target); err != nil {
		return err
	}
	decision := nuid.Next()
	err = m.s.change(ctx, func(meta map[string]string, found guard.Poll) error {
		if found.Mark != m.text {
			return unmarked(found)
		}
		if meta[metaID], err = agreed.Agree(ctx, ConfigKey, cmp.Or(found.ID, nuid.Next())); err != nil {
			return err
		}
		delete(meta, metaRaising)
		earlier := slices.DeleteFunc(slices.Clone(d.Earlier), func(d string) bool { return slices.Contains(found.Decisions, d) })
		meta[metaDecisions] = strings.Join(append(append(earlier, found.Decisions...), decision), " ")
		meta[metaDecided] = decision + " " + d.Time.UTC().Format(time.RFC3339Nano)
		if len(d.Ignored) > 0 {
			meta[metaIgnored] = strings.Join(ignored(found.Ignored, d.Ignored), " ")
		}
		meta[metaFirst] = strconv.FormatInt(max(found.First, m.target), 10)
		return nil
	})
	if err != nil {
		return err
	}
	found, err := m.s.remote.poll(ctx)
	if err == nil && !slices.Contains(found.Decisions, decision) {
		return unmarked(found)
	}
	return err
}

// maxIgnored bounds the instances in the metadata of the stream.
const maxIgnored = 32

// ignored returns the latest instances whose claims are ignored: those before, and
// then others.
func ignored(before, others []string) []string {
	all := slices.DeleteFunc(slices.Clone(before), func(instance string) bool { return slices.Contains(others, instance) })
	all = append(all, others...)
	return all[max(0, len(all)-maxIgnored):]
}

// checkFloor returns an error if the floor in the config is above the highest
// that this command has read or written: another command has decided since. A
// change of the stream's metadata has no condition, so one of this command may
// have arrived late, and have undone that decision.
func (m *Mark) checkFloor(ctx context.Context) error {
	floor, err := agreement.Floor(ctx, m.s.cfg.JetStream, m.s.cfg.Prefix)
	if err == nil && floor > m.floor {
		err = ErrUnmarked
	}
	return err
}

// Announce tells the workers of the installation about the latest decision, if
// there is one. Every decision is followed by this step; it is repeated after a
// command that ended between the two.
func Announce(ctx context.Context, js jetstream.JetStream, p messages.Prefix) error {
	found, err := pollLeader(ctx, js, BucketName(p))
	if err != nil || len(found.Decisions) == 0 {
		return err
	}
	agreed, err := agreement.Open(ctx, js, p)
	if err != nil {
		return err
	}
	id, err := agreement.LookupID(ctx, js, p)
	if err != nil {
		return err
	}
	return agreed.Announce(ctx, agreement.Announcement{Floor: found.First, Installation: id})
}

// change changes the metadata of the stream. It also corrects settings, which
// may be those of an old backup.
func (s *Register) change(ctx context.Context, do func(meta map[string]string, found guard.Poll) error) error {
	stream, err := s.cfg.JetStream.Stream(ctx, kv.StreamName(BucketName(s.cfg.Prefix)))
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	if config.Metadata == nil {
		config.Metadata = make(map[string]string)
	}
	if err := do(config.Metadata, pollOf(stream.CachedInfo())); err != nil {
		return err
	}
	kv.Harden(&config, s.cfg.JetStream.Conn())
	if _, err := s.cfg.JetStream.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("bucket %s: change its metadata: %w", BucketName(s.cfg.Prefix), err)
	}
	return nil
}
