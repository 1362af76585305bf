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

	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register/internal/guard"
)

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
	for errors.Is(err, ErrUnmarked) && r.By == nil { // a number would count from another state
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
			if gone := s.checkMark(ctx, mark); err == nil || errors.Is(gone, ErrUnmarked) || errors.Is(gone, ErrOther) {
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

func (s *Register) checkFloor(ctx context.Context, highest int64) error {
	return (&Mark{s: s, floor: highest}).checkFloor(ctx)
}

// Decide is [OpenToRaise].
func Decide(ctx context.Context, cfg Config, replicas int, first uint64, alone bool) (*Register, error) {
	return OpenToRaise(ctx, cfg, replicas, first, alone)
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
