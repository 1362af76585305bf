package tags

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/subject"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
)

// MaxRaiseAll bounds a raise of all tags by a number, so that a typing error
// does not use up tags that are less than half used.
const MaxRaiseAll = 1 << 62

var (
	// ErrUndone means that an earlier raise was undone by a restore, so a number
	// counted from the entries could repeat IDs.
	ErrUndone = problem.New(problem.RaiseUndone, "an earlier raise was undone, so a number can repeat IDs")

	// ErrClock means that the clocks at hand differ.
	ErrClock = problem.New(problem.Invalid, "cannot raise by the time")

	// ErrNoneLeft means that something knows a floor with no IDs above it.
	ErrNoneLeft = problem.New(problem.Invalid, "no IDs are left above an earlier raise")

	// ErrEmpty means that there is no installation to raise.
	ErrEmpty = problem.New(problem.NoneToRaise, "nothing to raise: NATS has no bucket of an installation, and no process of one answers")

	// ErrTooNarrow means that the column max_id cannot hold the raised IDs.
	ErrTooNarrow = problem.New(problem.Invalid, "the column max_id is too narrow")

	// ErrUnreadable means that the register cannot be opened.
	ErrUnreadable = problem.New(problem.Invalid, "the register cannot be opened; --replace saves what can be read, and makes a new one")

	// ErrReadable means that the register can be opened, so it is not replaced.
	ErrReadable = problem.New(problem.Invalid, "the register can be read; --replace is for one that cannot be opened")

	// ErrNotRaised means that loaders were granted more than the raise skipped.
	ErrNotRaised = problem.New(problem.MustRaise, "not raised enough")

	// ErrBehind means that workers may still hand out what was granted before the
	// raise.
	ErrBehind = errors.New("all tags were raised, but some processes do not follow")
)

// Raising is a raise of every tag and every removed tag. It ends every restore:
// stopped loaders continue.
//
// Without numbers all tags are lifted above the time in microseconds since 1970.
// Time never comes back: whatever was restored, however often, the next raise
// lies above all that was granted, as long as no tag reserves more than a
// million numbers a second on average.
type Raising struct {
	By    int64     // IDs to skip of every tag, 1 to [MaxRaiseAll]; 0: by the time
	Lifts []Lift    // tags that are lifted by a number instead
	Built time.Time // of this program; zero if unknown

	// Restored is what a backup adds; nil without one.
	Restored *Restored

	// Confirm is called before anything is written, if it is not nil. An error
	// ends the raise.
	Confirm func(Plan) error
	Report  func(Change)

	before func(context.Context) error // done before the decision; may be nil

	now func() time.Time // of this machine; for tests
}

// Lift lifts the tags that match a pattern by a number.
type Lift struct {
	Pattern string // or a tag
	By      int64  // 1 to [MaxRaiseAll]
}

// by returns the number for a tag, or 0: the highest of those that match.
func (r *Raising) by(tag string) (n int64) {
	for _, l := range r.Lifts {
		if subject.Covers(l.Pattern, tag) {
			n = max(n, l.By)
		}
	}
	return max(n, r.By)
}

// Plan is what a raise is about to do.
type Plan struct {
	Target int64     // the lowest first ID of names without an entry
	Time   time.Time // whose microseconds the target has; zero if all tags are raised by a number
	Clock  time.Time // the present, by the clock that is furthest ahead
	Newest time.Time // the latest time that the installation knows; zero if none

	// Future is how far Newest lies ahead of the clocks, and Time with it; 0 if
	// it agrees with them. NewestOf is where it was found.
	Future   time.Duration
	NewestOf string

	Unconfirmed bool      // a restore has no clock but this machine's
	Issued      time.Time // if set, snowflake IDs may have been issued until then, and worker IDs wait

	Tags, Removed int
	Past31        Named    // tags lifted from below 2^31 to above
	Past53        Named    // tags lifted above 2^53
	Above         Named    // tags at or above the target before the raise
	UsedUp        Named    // tags without IDs left
	Forgotten     Named    // tags that workers hold, and that the register lacks
	Others        Named    // rows whose names are not those of tags, quoted
	Unmatched     []string // patterns without a tag
	Silent        []string // processes that did not say what they know

	// Set by a restore.
	Lost      register.Compared // with what the register lacks of the backup
	Missing   bool              // there is no register
	Regressed string            // why the register may lack grants; may be empty

	Changes func(ctx context.Context, visit func(Change)) error
}

// Named counts tags, and names the first of them.
type Named struct {
	Count int
	Names []string
}

// maxNamed bounds the names of [Named].
const maxNamed = 3

// Add counts a tag.
func (n *Named) Add(tag string) {
	if n.Count++; len(n.Names) < maxNamed {
		n.Names = append(n.Names, strings.Clone(tag))
	}
}

// String lists the tags.
func (n Named) String() string {
	text := strings.Join(n.Names, ", ")
	if more := n.Count - len(n.Names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// RaiseAll raises the tags of an installation. It creates a missing register.
// After the decision it waits until the processes that answer follow it, see
// [Follow], whose errors it returns, too.
func RaiseAll(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, r Raising) (done Raised, err error) {
	other := ""
	if r.Restored != nil {
		other = r.Restored.Installation
	}
	k, err := ask(ctx, js, prefix, other, r.clock())
	if err != nil {
		return done, err
	}
	target, err := r.raise(ctx, js, prefix, source, k, false)
	if err != nil && !errors.Is(err, store.ErrCorrupt) { // then the other tags were raised
		return Raised{Target: target}, err
	}
	done, behind := usual.follow(ctx, js, prefix, target, k)
	return done, errors.Join(err, behind)
}

// RaiseFolder is [RaiseAll] for the data folder of a stopped embedded server.
// The witness then accepts the folder. It returns the folder's path.
func RaiseFolder(ctx context.Context, at embedded.Config, prefix messages.Prefix, source backend.Backend, r Raising) (folder string, target int64, err error) {
	at.Recover, at.Prefix, at.Beside = true, prefix, backend.Beside(prefix)
	server, err := embedded.Start(ctx, at)
	if err != nil {
		return "", 0, err
	}
	defer server.Stop()
	conn, js, err := server.Connect()
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	if err := checkPrefix(ctx, js, prefix); err != nil {
		return "", 0, err
	}
	k, err := askBuckets(ctx, js, prefix, r.clock())
	if err != nil {
		return "", 0, err
	}
	floor, noted, err := server.Witness().Floor(prefix)
	if err != nil {
		return "", 0, err
	}
	k.addFloor("the witness", floor)
	k.addTime("the witness", noted)
	k.found = k.found || !noted.IsZero()
	var damaged *embedded.RecoverError
	switch err := server.Compare(ctx, js); {
	case errors.As(err, &damaged):
		k.wrong = damaged.Err.Error()
	case err != nil:
		return "", 0, err
	}
	if noted.Sub(k.now()) > MaxClockDiff {
		if err := server.Witness().CompareBucket(ctx, js, lease.ClockBucketName(prefix)); errors.Is(err, store.ErrRegressed) {
			k.issued = noted
		} else if err != nil {
			return "", 0, err
		}
	}
	r.before = func(ctx context.Context) error { return reserveClock(ctx, js, prefix, server.Witness(), noted) }
	target, err = r.raise(ctx, js, prefix, source, k, true)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return "", 0, err
	}
	return server.Folder(), target, errors.Join(err, server.Witness().Accept(ctx, js, prefix, backend.Beside(prefix)...))
}

// reserveClock keeps worker IDs from being claimed until the time that snowflake
// IDs were issued for is past, unless the bucket of that time has all that the
// witness noted. Without a note, that may have been until now. Tags need not wait.
func reserveClock(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, w *register.Witness, noted time.Time) error {
	if noted.IsZero() {
		noted = time.Now()
	} else if err := w.CompareBucket(ctx, js, lease.ClockBucketName(prefix)); !errors.Is(err, store.ErrRegressed) {
		return err
	}
	return lease.ReserveLost(ctx, js, prefix, 1, noted)
}

func (r *Raising) clock() func() time.Time {
	if r.now != nil {
		return r.now
	}
	return time.Now
}

// raise plans, asks, and raises. Alone means that no other process is
// connected.
func (r *Raising) raise(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, k *known, alone bool) (int64, error) {
	if !r.Built.IsZero() {
		k.addTime("this program's build", r.Built)
	}
	if r.Restored == nil && !k.found && source.Kind() == backend.JetStream {
		return 0, ErrEmpty // a database may have tags
	}
	if r.Restored != nil {
		k.addFloor("the backup", r.Restored.Floor)
		k.addTime("the backup", r.Restored.Taken)
		k.addTime("the latest decision in the backup", r.Restored.Latest)
		if err := r.Restored.Look(ctx, js); err != nil {
			return 0, err
		}
		if err := r.Restored.checkTemplates(ctx, js, prefix); err != nil {
			return 0, err
		}
	}
	unreadable, err := r.Restored.salvage(ctx, js, prefix, source.Kind() == backend.JetStream, k)
	if err != nil {
		return 0, err
	}
	plan, raise, err := r.target(k)
	if err != nil {
		return 0, err
	}
	raise.Alone = alone
	raise.Also = func(ctx context.Context, raise register.OldRaise) error {
		err := liftTemplates(ctx, js, prefix, raise)
		if err == nil && r.before != nil {
			err = r.before(ctx)
		}
		return err
	}
	if k.state.Missing { // opening creates it
		if err := r.prepareLost(ctx, js, prefix, k, plan, raise, unreadable); err != nil {
			return 0, err
		}
	}
	segments, err := r.open(ctx, js, prefix, source, uint64(min(plan.Target, 1<<62)), alone)
	if err != nil {
		return 0, err
	}
	defer func() { _ = segments.Close() }() // all replies have arrived
	held := k.heldTags(r.Restored)
	if err := r.fill(ctx, &plan, raise, segments, held); err != nil {
		return 0, err
	}
	if !k.state.Missing {
		if err := r.confirm(ctx, js, prefix, k, plan); err != nil {
			return 0, err
		}
	}
	raise.First = func(ctx context.Context, raise register.OldRaise) error {
		if r.Restored != nil {
			if !k.state.Missing { // under the mark, or a restore that ended here would seem to be done
				if err := r.Restored.Prepare(ctx, js); err != nil {
					return err
				}
			}
			if err := r.Restored.putBack(ctx, js, prefix, segments, raise); err != nil {
				return err
			}
		}
		return segments.PutBackHeld(ctx, held)
	}
	if r.By == 0 { // the answer may have taken long
		raise.Target = max(raise.Target, raise.Now().UnixMicro())
	}
	return segments.RaiseAll(ctx, raise, func(tag store.Tag, before int64) {
		r.Report(changeOf(tag, before))
	})
}

// prepareLost confirms and prepares the raise of a register that is missing, or
// is replaced: its entries, if any, are saved and deleted.
func (r *Raising) prepareLost(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, k *known, plan Plan, raise register.OldRaise, unreadable map[string]string) error {
	plan.Changes = func(context.Context, func(Change)) error { return nil }
	for _, tag := range k.heldTags(r.Restored) { // in front of a table, those with a row
		plan.Forgotten.Add(tag.Name)
		plan.count(tag, raise.Lift(tag, time.Time{}), raise)
	}
	if r.Restored == nil {
		return r.confirm(ctx, js, prefix, k, plan)
	}
	plan.Lost.Missing = r.Restored.Tags
	for _, tag := range plan.Lost.Missing {
		plan.count(tag, raise.Lift(tag, r.Restored.Taken), raise)
	}
	if err := r.confirm(ctx, js, prefix, k, plan); err != nil {
		return err
	}
	if err := r.Restored.Prepare(ctx, js); err != nil { // the register is made with a mark
		return err
	}
	if unreadable == nil {
		return nil
	}
	if err := r.Restored.Salvage(unreadable); err != nil {
		return err
	}
	return register.Discard(ctx, js, prefix)
}

// confirm prompts, and then creates a missing config bucket. If this machine's
// clock was the only one, the server that answers now has another. Nothing else
// has been written then.
func (r *Raising) confirm(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, k *known, plan Plan) error {
	if r.Confirm != nil {
		if err := r.Confirm(plan); err != nil {
			return err
		}
	}
	replicas := 1
	if r.Restored != nil {
		replicas = r.Restored.Replicas
	}
	if err := kv.Ensure(ctx, js, agreement.Bucket(prefix, replicas)); err != nil || !plan.Unconfirmed {
		return err
	}
	asked := k.local()
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return err
	}
	k.addServer(agreed.ServerTime(), asked)
	return k.checkClocks()
}

// liftTemplates lifts the first IDs of templates at or above the target, as
// tags: a lost tag may have begun there.
func liftTemplates(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, raise register.OldRaise) error {
	stored, err := kv.Get(ctx, js, agreement.BucketName(prefix), templates.Key)
	if err != nil {
		return err
	}
	list, err := templates.Read(ctx, js, prefix)
	for _, t := range list {
		if t.First < raise.Target {
			continue
		}
		first := raise.Lift(store.Tag{Name: t.Pattern, Next: t.First}, stored.Created)
		err = errors.Join(err, templates.Change(ctx, js, prefix, t.Pattern, func(t *templates.Template) { t.First = max(t.First, first) }))
	}
	return err
}

func changeOf(tag store.Tag, before int64) Change {
	return Change{Tag: tag.Name, Before: before, Next: tag.Next, Removed: tag.Step == 0}
}

// open opens the store for a raise. A missing register is created, with first as
// the first revision.
func (r *Raising) open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend, first uint64, alone bool) (*backend.Segments, error) {
	replicas := 1
	if r.Restored != nil {
		replicas = r.Restored.Replicas
	}
	agreed, err := agreement.Open(ctx, js, prefix)
	if err == nil {
		replicas, err = max(replicas, agreed.Replicas()), agreed.CheckStore(ctx, source.Name())
	}
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, err
	}
	return source.Decide(ctx, register.Config{JetStream: js, Prefix: prefix}, replicas, first, alone)
}

// target decides how far tags are lifted: above the time, and above whatever is
// known of an earlier raise.
func (r *Raising) target(k *known) (plan Plan, raise register.OldRaise, err error) {
	raise = register.OldRaise{Now: k.time, Held: k.held}
	if r.By > 0 || len(r.Lifts) > 0 {
		raise.By = r.by
		if k.floor.value > k.state.Floor {
			return plan, raise, fmt.Errorf("%w: %s has seen %d as the lowest first ID of new tags, and the register has %d",
				ErrUndone, k.floor.of, k.floor.value, k.state.Floor)
		}
	}
	plan = Plan{
		Clock: k.now(), Newest: k.newest.value, NewestOf: k.newest.of, Future: k.future(), Issued: k.issued,
		Silent: k.silent, Missing: k.state.Missing, Regressed: k.fault(),
	}
	if r.Restored != nil {
		plan.Unconfirmed = len(k.clocks) == 1 && k.state.Missing
		raise.Decided, raise.Since = r.Restored.Decided, r.Restored.Taken
		if plan.Regressed == "" && !k.state.Knows(raise.Decided) {
			plan.Regressed = "it lacks a raise that the backup has"
		}
	}
	if r.By > 0 {
		raise.Target = store.Beyond(k.state.Floor, r.By)
	} else {
		if err := k.checkClocks(); err != nil {
			return plan, raise, err
		}
		if store.Left(k.floor.value) <= register.Slack {
			return plan, raise, fmt.Errorf("%w: %s has seen %d as the lowest first ID of new tags", ErrNoneLeft, k.floor.of, k.floor.value)
		}
		plan.Time = k.time()
		raise.Target = max(plan.Time.UnixMicro(), store.Beyond(max(k.floor.value, k.heldBelow(plan.Time)), register.Slack))
	}
	if plan.Future > 0 {
		// A clock was ahead, so nobody knows how long ago entries were written. Tags
		// above the target are lifted as if that was in 1970.
		raise.Since = time.UnixMicro(1)
	}
	plan.Target = raise.Target
	if r.Restored != nil {
		for _, tag := range r.Restored.Tags {
			if tag.Next >= raise.Target { // a lower entry may be that of a tag that was made again
				raise.Held[tag.Name] = max(raise.Held[tag.Name], tag.Next)
			}
		}
	}
	return plan, raise, nil
}

// count counts a tag, with its next ID after the raise.
func (p *Plan) count(tag store.Tag, next int64, raise register.OldRaise) {
	if tag.Step == 0 {
		p.Removed++
	} else {
		p.Tags++
	}
	if tag.Next < 1<<31 && next > 1<<31 {
		p.Past31.Add(tag.Name)
	}
	if tag.Next < 1<<53 && next > 1<<53 {
		p.Past53.Add(tag.Name)
	}
	if raise.By == nil && max(tag.Next, raise.Held[tag.Name]) >= raise.Target {
		p.Above.Add(tag.Name)
	}
	if next == store.Beyond(next, 1) {
		p.UsedUp.Add(tag.Name)
	}
}

// fill counts what the raise will do, and refuses what it cannot do.
func (r *Raising) fill(ctx context.Context, plan *Plan, raise register.OldRaise, segments *backend.Segments, held []store.Tag) error {
	limit := int64(0)
	if segments.Database != nil {
		var err error
		if limit, err = segments.Database.Limit(ctx); err != nil {
			return err
		}
	}
	var narrow Named
	used := make([]bool, len(r.Lifts))
	if r.Restored != nil && !plan.Missing {
		var err error
		if plan.Lost, err = segments.CompareList(ctx, r.Restored.Tags); err != nil {
			return err
		}
		for _, tag := range plan.Lost.Missing {
			plan.count(tag, raise.Lift(tag, r.Restored.Taken), raise)
		}
		for _, tag := range plan.Lost.Rowless {
			if limit > 0 && raise.Lift(tag, r.Restored.Taken) > limit {
				narrow.Add(tag.Name)
			}
		}
	}
	found, err := segments.CompareList(ctx, held)
	if err != nil {
		return err
	}
	for _, tag := range segments.Forgotten(found) {
		plan.Forgotten.Add(tag.Name)
		plan.count(tag, raise.Lift(tag, time.Time{}), raise)
	}
	for _, row := range found.Others {
		plan.Others.Add(fmt.Sprintf("%.140q", row.Name))
	}
	err = segments.PlanRaise(ctx, raise, func(tag store.Tag, next int64) {
		plan.count(tag, next, raise)
		for i, l := range r.Lifts {
			used[i] = used[i] || subject.Covers(l.Pattern, tag.Name)
		}
		if limit > 0 && next > limit && tag.Step > 0 {
			narrow.Add(tag.Name)
		}
	})
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	if narrow.Count > 0 {
		return fmt.Errorf("%w: it ends at %d, and %s would pass that; make it BIGINT, or raise those tags by a number: idworker tag raise --all 'PATTERN=N'",
			ErrTooNarrow, limit, narrow)
	}
	for i, l := range r.Lifts {
		if !used[i] {
			plan.Unmatched = append(plan.Unmatched, l.Pattern)
		}
	}
	plan.Changes = func(ctx context.Context, visit func(Change)) error {
		return segments.PlanRaise(ctx, raise, func(tag store.Tag, next int64) {
			before := tag.Next
			tag.Next, tag.Name = next, strings.Clone(tag.Name)
			visit(changeOf(tag, before))
		})
	}
	return nil
}

// checkPrefix rejects a folder that has registers of other prefixes only.
func checkPrefix(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	var others []string
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		bucket, isBucket := strings.CutPrefix(name, kv.StreamName(""))
		other, isRegister := strings.CutSuffix(bucket, register.BucketName(""))
		switch {
		case bucket == register.BucketName(prefix) && isBucket:
			return nil
		case isBucket && isRegister:
			others = append(others, other)
		}
	}
	if err := names.Err(); err != nil || len(others) == 0 {
		return err
	}
	return fmt.Errorf("%w: the folder has no register of %s, only of %s", messages.ErrPrefix, prefix, strings.Join(others, ", "))
}
