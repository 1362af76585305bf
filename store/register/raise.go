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

// A raise lifts every tag, because the register may have regressed: some grants
// are in no entry. It writes a mark into the metadata of the stream, which stops
// all grants, waits until no permit from before the mark is valid, lifts the
// entries, and replaces the mark by a decision. docs/proofs/register.md has the
// argument.

// OldRaise tells [Register.RaiseAll] how far to lift tags.
type OldRaise struct {
	// Target is the lowest first ID of names without an entry, from the decision
	// on. Tags below the target are lifted to it. It has to lie above every
	// earlier target.
	Target int64

	// By returns the number of IDs by which a tag is lifted instead, or 0. It may
	// be nil.
	By func(tag string) int64

	// Held has the ends of segments that workers hold, by tag: an entry that is
	// lower was put back.
	Held map[string]int64

	// Since, if set, is when the entries were last seen before they were lost: an
	// entry that was written later may be that of a tag that was made again.
	Since time.Time

	// Decided are earlier decisions that the register may lack.
	Decided []string

	// Now returns the time of the decision (default: time.Now).
	Now func() time.Time

	// Alone means that no other process is connected, so no permits are valid.
	Alone bool

	// First is done before entries are lifted, and Also before the decision,
	// both with the target of the mark. They may be nil.
	First, Also func(ctx context.Context, r OldRaise) error
}

// Slack is the number of IDs between what is known of earlier grants and a
// raise: what tags may have been granted beyond that, in a burst. At a million
// IDs a second, the rate that targets by time assume at most, it lasts 2.8
// hours.
const Slack int64 = 10_000_000_000

// Lift returns the next ID of a tag after the raise. The tag's entry was
// written at that time; zero means unknown.
//
// A tag at or above the target was not begun by time. It may have been granted
// a million IDs a second since its entry was written, as targets assume of all
// tags.
func (r OldRaise) Lift(tag store.Tag, written time.Time) int64 {
	held := r.Held[tag.Name]
	if r.By != nil {
		if by := r.By(tag.Name); by > 0 {
			return store.Beyond(max(tag.Next, held), by)
		}
	}
	next := max(held, tag.Next)
	switch {
	case next < r.Target:
		return r.Target
	case held > tag.Next && r.Since.IsZero():
		return store.Beyond(held, Slack)
	}
	if !r.Since.IsZero() && written.After(r.Since) {
		written = r.Since
	}
	since := max(0, r.Target-max(0, written.UnixMicro()))
	return store.Beyond(store.Beyond(next, since), Slack)
}

// Decide opens a register that may have regressed, or is missing, for
// [Register.RaiseAll], which needs the config bucket. It creates a missing register
// with the identity of the installation's, and marked as being raised: no loader
// grants from it before the decision. The first sequence of its stream is the
// given number, above all sequences of earlier streams, so that no late write to
// one of those can be accepted. Unless alone, it first waits until no permit is
// valid: a loader that lacks the entry of a tag could create it in the new
// register, and an answer from there is above all that it has seen.
func Decide(ctx context.Context, cfg Config, replicas int, first uint64, alone bool) (*Register, error) {
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

// PlanRaise passes what [Register.RaiseAll] would do to visit: each tag and removed
// tag, with its next ID after the raise. Step 0 means that the tag is removed.
func (s *Register) PlanRaise(ctx context.Context, r OldRaise, visit func(tag store.Tag, next int64)) error {
	rows, _, err := s.rows(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	err = s.remote.each(ctx, func(name string, e listed, written time.Time) bool {
		if e.err == nil && e.exists() {
			tag := s.tagOf(name, e.storedEntry, rows)
			visit(tag, r.Lift(tag, written))
		}
		delete(rows, name)
		return true
	})
	for _, row := range rows {
		visit(row, r.Lift(row, time.Time{}))
	}
	return err
}

// rows returns the rows of the table by name, and the others, see listRows. An
// error that wraps [store.ErrCorrupt] is about some rows only.
func (s *Register) rows(ctx context.Context) (rows map[string]store.Tag, others []store.Tag, err error) {
	list, others, err := s.listRows(ctx)
	rows = make(map[string]store.Tag)
	for _, row := range list {
		rows[row.Name] = row
	}
	return rows, others, err
}

// listRows returns the rows of the table, and apart from them those whose names
// are not those of tags. Leaf's servers may use those. Nobody gets IDs of them
// here, because every method checks the name that it is called with, so they are
// not to be raised, moved or backed up, and the register cannot have such names.
func (s *Register) listRows(ctx context.Context) (rows, others []store.Tag, err error) {
	if s.cfg.Table == nil {
		return nil, nil, nil
	}
	list, err := s.cfg.Table.Tags(ctx)
	rows = list[:0]
	for _, row := range list {
		if checkName(row.Name) == nil {
			rows = append(rows, row)
		} else {
			others = append(others, row)
		}
	}
	return rows, others, err
}

// tagOf returns the tag of an entry and perhaps of a row; a removed tag has
// step 0.
func (s *Register) tagOf(name string, e storedEntry, rows map[string]store.Tag) store.Tag {
	tag := store.Tag{Name: name, Next: e.Next, Order: e.order()}
	if row, ok := rows[name]; ok {
		tag.Step, tag.Next = max(1, row.Step), max(row.Next, e.Next)
	} else if s.cfg.Table == nil && s.live(e) {
		tag.Step = e.Step
	}
	return tag
}

// RaiseAll lifts every tag, and the stored next of removed tags, and reports
// each with its next ID before; a tag without IDs left is exhausted. Then it
// writes a decision: stopped loaders resume, and names without an entry begin
// at the target, because a tag of such a name may have been lost. It returns the
// target, which an unfinished earlier raise may have lifted. Unreadable entries
// and rows are not changed, and are an ErrCorrupt: they grant nothing.
//
// No loader grants during the raise. It lifts the sequence above the highest
// seen, so the register would not look regressed. The decision ends that state.
// After any error but ErrCorrupt there is no decision, and RaiseAll has to be
// called again. It waits for guard.PollAge. If it finds that another call raises all
// tags, it ends with an error. If its mark disappears, it starts over.
func (s *Register) RaiseAll(ctx context.Context, r OldRaise, report func(tag store.Tag, before int64)) (target int64, err error) {
	var corrupt error
	work := func(ctx context.Context, r OldRaise) error {
		if r.First != nil {
			if err := r.First(ctx, r); err != nil {
				return err
			}
		}
		corrupt = s.liftAll(ctx, r, report)
		switch {
		case corrupt != nil && !errors.Is(corrupt, store.ErrCorrupt):
			return corrupt
		case r.Also != nil:
			return r.Also(ctx, r)
		}
		return nil
	}
	target, err = s.decideAfter(ctx, r, true, work)
	for errors.Is(err, errUnmarked) && r.By == nil { // a number would count from another state
		if err = s.restart(ctx); err != nil {
			break
		}
		floor, failed := agreement.Floor(ctx, s.cfg.JetStream, s.cfg.Prefix) // another command may have decided
		if err = failed; err == nil {
			r.Target = max(r.Target, store.Beyond(max(floor, s.Lowest()), Slack))
			target, err = s.decideAfter(ctx, r, true, work)
		}
	}
	if err == nil && corrupt != nil {
		err = fmt.Errorf("%w; the others were raised: %w", store.ErrCorrupt, corrupt)
	}
	return target, err
}

var (
	// errOther reports that another administrator is raising the tags.
	errOther = errors.New("another command is raising all tags; retry when it has ended")

	// errUnmarked means that the mark is gone: the register was restored, or
	// another command has decided.
	errUnmarked = errors.New("the mark of the raise is gone: the register was restored, or another command has decided; run it again")
)

// DecideAfter does work while no loader grants, and then writes a decision with
// the target as the lowest first ID of new names. It passes the raise to work
// with the target of the mark, and returns that. It fails with an [ErrRaising]
// if there is a mark: only RaiseAll lifts the tags that need it.
func (s *Register) DecideAfter(ctx context.Context, r OldRaise, work func(context.Context, OldRaise) error) (target int64, err error) {
	return s.decideAfter(ctx, r, false, work)
}

func (s *Register) decideAfter(ctx context.Context, r OldRaise, over bool, work func(context.Context, OldRaise) error) (target int64, err error) {
	s.judge((*guard.Guard).IgnoreMarks)
	before, err := agreement.Floor(ctx, s.cfg.JetStream, s.cfg.Prefix)
	if err != nil {
		return 0, err
	}
	mark, err := s.begin(ctx, &r, over)
	if err != nil {
		return 0, err
	}
	for _, step := range []func() error{
		func() error { return s.checkMark(ctx, mark) },
		func() error {
			err := work(ctx, r)
			if gone := s.checkMark(ctx, mark); err == nil || errors.Is(gone, errUnmarked) || errors.Is(gone, errOther) {
				return gone
			}
			return err
		},
		func() error { return s.decide(ctx, r, mark) },
		func() error { return s.checkFloor(ctx, max(before, r.Target)) },
		func() error { return Announce(ctx, s.cfg.JetStream, s.cfg.Prefix) },
	} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return r.Target, nil
}

// begin marks the register as being raised, with the target, and returns the
// mark. A mark of an unfinished raise is replaced, by a higher target: entries
// may have been lifted to that of the other. Then begin waits until no write
// with an earlier permit can be granted any more.
func (s *Register) begin(ctx context.Context, r *OldRaise, over bool) (mark string, err error) {
	born := false // no permit was ever valid for it
	err = s.change(ctx, func(meta map[string]string, found guard.Poll) error {
		born = found.Mark != "" && found.Mark == s.born
		if found.Mark != "" && !over {
			return ErrRaising
		}
		if r.Target <= found.First && r.Target < math.MaxInt64 {
			return fmt.Errorf("%w: raise to %d, but new tags begin at %d already", store.ErrBadTag, r.Target, found.First)
		}
		if found.Mark != "" {
			r.Target = max(r.Target, store.Beyond(found.Target, 1))
		}
		mark = nuid.Next() + " " + strconv.FormatInt(r.Target, 10)
		meta[metaRaising] = mark
		return nil
	})
	if err == nil && !r.Alone && !born {
		pause.For(ctx, guard.PollAge)
		err = ctx.Err()
	}
	return mark, err
}

// checkMark returns an error unless the mark of this raise stands.
func (s *Register) checkMark(ctx context.Context, mark string) error {
	found, err := s.remote.poll(ctx)
	if err != nil || found.Mark == mark {
		return err
	}
	return unmarked(found)
}

// unmarked is the error for a poll without the own mark.
func unmarked(found guard.Poll) error {
	if found.Mark != "" {
		return errOther
	}
	return errUnmarked
}

// decide writes a new decision to the metadata of the stream, with the identity
// of the installation's register, after the floor has been written to the
// installation's config. It reads the decision back, because an update of a
// stream has no condition.
func (s *Register) decide(ctx context.Context, r OldRaise, mark string) error {
	agreed, err := agreement.Open(ctx, s.cfg.JetStream, s.cfg.Prefix)
	if err != nil {
		return err
	}
	if err := agreed.RaiseFloor(ctx, r.Target); err != nil {
		return err
	}
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	decision := nuid.Next()
	err = s.change(ctx, func(meta map[string]string, found guard.Poll) error {
		if found.Mark != mark {
			return unmarked(found)
		}
		if meta[metaID], err = agreed.Agree(ctx, ConfigKey, cmp.Or(found.ID, nuid.Next())); err != nil {
			return err
		}
		delete(meta, metaRaising)
		earlier := slices.DeleteFunc(slices.Clone(r.Decided), func(d string) bool { return slices.Contains(found.Decisions, d) })
		meta[metaDecisions] = strings.Join(append(append(earlier, found.Decisions...), decision), " ")
		meta[metaDecided] = decision + " " + now().UTC().Format(time.RFC3339Nano)
		meta[metaFirst] = strconv.FormatInt(max(found.First, r.Target), 10)
		return nil
	})
	if err != nil {
		return err
	}
	found, err := s.remote.poll(ctx)
	if err == nil && !slices.Contains(found.Decisions, decision) {
		return unmarked(found)
	}
	return err
}

// checkFloor returns an error if the floor in the config is above the highest
// that this command has read or written: another command has decided since. A
// change of the stream's metadata has no condition, so one of this command may
// have arrived late, and have undone that decision.
func (s *Register) checkFloor(ctx context.Context, highest int64) error {
	floor, err := agreement.Floor(ctx, s.cfg.JetStream, s.cfg.Prefix)
	if err == nil && floor > highest {
		err = errUnmarked
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
	return agreed.Announce(ctx, agreement.Decision{Floor: found.First, Installation: id})
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
