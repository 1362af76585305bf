package tags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// known is what an installation knows about its earlier raises and the time. A
// restore can take away any part of it, so the highest counts.
type known struct {
	state register.Summary
	local func() time.Time

	floor  told[int64]          // the highest floor
	newest told[time.Time]      // the latest time
	held   map[string]int64     // ends of segments in workers' buffers, by tag
	tags   map[string]store.Tag // these tags, as workers report them
	most   []int64              // highest end that each worker holds, below 2^53
	silent []string             // processes that did not say
	// the processes that answered, by instance, and instances that did not
	answered map[string]worker.Report
	absent   []string
	wrong    string // a process that found the register regressed

	clocks []clock
	found  bool      // a bucket of the installation, or a process that answers
	issued time.Time // snowflake IDs may have been issued until then, and no bucket has the time
}

// told is a value and where it was found.
type told[T any] struct {
	value T
	of    string
}

// clock is a clock at hand, by its lead over this machine's.
type clock struct {
	of    string
	ahead time.Duration
}

// MaxClockDiff bounds the difference between the clocks at hand. A known time
// that is less than that ahead of them is no time from the future.
const MaxClockDiff = 10 * time.Second

func (k *known) addFloor(of string, floor int64) {
	if floor > k.floor.value {
		k.floor = told[int64]{floor, of}
	}
}

func (k *known) addTime(of string, t time.Time) {
	if t.After(k.newest.value) {
		k.newest = told[time.Time]{t, of}
	}
}

// now returns the time of the clock that is furthest ahead.
func (k *known) now() time.Time {
	ahead := time.Duration(0)
	for _, c := range k.clocks {
		ahead = max(ahead, c.ahead)
	}
	return k.local().Add(ahead)
}

// time returns the time of a raise and of its decision: that of the clocks, and
// not before any time that the installation knows. A known time from the future
// is the trace of a clock that was ahead. Tags may have been raised by that clock
// although nothing is left that has noted their floor, so a lower target could
// repeat IDs.
func (k *known) time() time.Time {
	if now := k.now(); now.After(k.newest.value) {
		return now
	}
	return k.newest.value
}

// future returns how far the newest known time lies ahead of the clocks, or 0
// if it agrees with them.
func (k *known) future() time.Duration {
	if ahead := k.newest.value.Sub(k.now()); ahead > MaxClockDiff {
		return ahead
	}
	return 0
}

// checkClocks returns an error if the clocks at hand differ: one of them is
// wrong now, and can be set right.
func (k *known) checkClocks() error {
	now := k.local()
	byLead := func(a, b clock) int { return cmp.Compare(a.ahead, b.ahead) }
	first, last := slices.MinFunc(k.clocks, byLead), slices.MaxFunc(k.clocks, byLead)
	if last.ahead-first.ahead <= MaxClockDiff {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrClock, Differ(now.Add(first.ahead), first.of, now.Add(last.ahead), last.of))
}

// Differ describes two clocks that differ.
func Differ(a time.Time, of string, b time.Time, of2 string) string {
	return fmt.Sprintf("clocks differ by %v: it is %s by that of %s, %s by that of %s (UTC); set them right",
		b.Sub(a).Abs().Round(time.Second), a.UTC().Format(time.DateTime), of, b.UTC().Format(time.DateTime), of2)
}

// ErrRaiseFirst means that only a raise of all tags may decide.
var ErrRaiseFirst = problem.New(problem.MustRaise, "the list has a floor, which needs a decision, but all tags must be raised first")

// checkWhole returns an error if the register may lack grants: a decision would
// let loaders go on without a raise of all tags.
func (k *known) checkWhole() error {
	if fault := k.fault(); fault != "" {
		return fmt.Errorf("%w: %s", ErrRaiseFirst, fault)
	}
	return nil
}

// fault returns why the register may lack grants, or "".
func (k *known) fault() string {
	switch {
	case k.state.Marked > 0:
		return "a raise was interrupted"
	case k.wrong != "":
		return k.wrong
	case k.floor.value > k.state.Floor:
		return fmt.Sprintf("%s has seen %d as the lowest first ID of new tags, and the register has %d", k.floor.of, k.floor.value, k.state.Floor)
	}
	return ""
}

// heldBelow returns the highest end of a segment that a worker holds, of those
// that a raise by time may have granted: up to some hours ahead of the time.
// Other tags began above it.
func (k *known) heldBelow(now time.Time) (highest int64) {
	for _, end := range k.most {
		if end <= now.UnixMicro()+10*register.Slack {
			highest = max(highest, end)
		}
	}
	return highest
}

// heldTags returns the tags that workers hold, sorted by name, but for those of a
// list that is put back.
func (k *known) heldTags(r *Restored) (held []store.Tag) {
	for _, name := range slices.Sorted(maps.Keys(k.tags)) {
		tag := k.tags[name]
		if tag.Step = cmp.Or(tag.Step, heldStep); r != nil {
			if _, listed := slices.BinarySearchFunc(r.Tags, tag, byName); listed {
				continue
			}
		}
		held = append(held, tag)
	}
	return held
}

// heldStep is the step of a tag for which workers report none: a strict tag.
const heldStep = 1000

// ask returns what buckets and processes report: those of the installation, and of
// another that the installation is restored to be, or "".
func ask(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, other string, now func() time.Time) (*known, error) {
	k, err := askBuckets(ctx, js, prefix, now)
	if err != nil {
		return nil, err
	}
	if !Allowed(ctx, js, worker.AskReportsRights()) {
		k.silent = append(k.silent, "all processes (this user may not list them)")
		return k, nil
	}
	var expected []string
	if Allowed(ctx, js, lease.ListRights(prefix)) {
		holdings, _, err := lease.List(ctx, js, prefix, kv.ByConsumer)
		if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return nil, err
		}
		for _, h := range holdings {
			if h.Instance != "" {
				expected = append(expected, h.Instance)
			}
		}
	}
	asked := now()
	reports, err := worker.AskReports(ctx, js.Conn(), prefix, expected)
	if err != nil && !errors.Is(err, worker.ErrNoReports) {
		return nil, err
	}
	installation, err := agreement.LookupID(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		expected = slices.DeleteFunc(expected, func(instance string) bool { return instance == r.Instance })
		if installation == "" || r.Stats.Installation == installation || r.Stats.Installation == other {
			k.addReport(r, asked)
		}
	}
	k.absent = expected
	for _, instance := range expected {
		k.silent = append(k.silent, instance+" (does not answer)")
	}
	return k, nil
}

// addReport adds what a process reported, after it was asked, and before
// now.
func (k *known) addReport(r worker.Report, asked time.Time) {
	k.found = true
	of := "process " + nameOf(r)
	if k.answered == nil {
		k.answered = make(map[string]worker.Report)
	}
	k.answered[r.Instance] = r
	if r.Stopped != "" {
		k.wrong = of + " grants nothing: " + r.Stopped
	}
	if r.Time.IsZero() { // nothing follows from it, not even for the clocks
		k.silent = append(k.silent, r.Instance+" (names no time)")
		return
	}
	ahead := time.Duration(0)
	switch {
	case r.Time.Before(asked):
		ahead = r.Time.Sub(asked)
	case r.Time.After(k.local()):
		ahead = r.Time.Sub(k.local())
	}
	k.clocks = append(k.clocks, clock{of, ahead})
	k.addFloor(of, max(r.Floor, r.BufferFloor))
	k.most = append(k.most, r.Stats.Highest)
	for _, t := range r.Stats.Tags {
		k.held[t.Tag] = max(k.held[t.Tag], t.Use.High)
		tag := store.Tag{Name: t.Tag, Next: k.held[t.Tag], Order: store.Order(t.Order), Step: max(t.Configured, k.tags[t.Tag].Step)}
		if k.tags[t.Tag].Order == store.Strict { // one that missed it takes the tag for trend
			tag.Order = store.Strict
		}
		if k.tags == nil {
			k.tags = make(map[string]store.Tag)
		}
		if tag.Next > 0 && tag.Order.Check() == nil {
			k.tags[t.Tag] = tag
		}
	}
}

// nameOf names a process for people.
func nameOf(r worker.Report) string {
	if r.Host == "" {
		return r.Instance
	}
	return r.Instance + " on " + r.Host
}

// askBuckets returns what the buckets of an installation know.
func askBuckets(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, now func() time.Time) (*known, error) {
	k := &known{local: now, held: make(map[string]int64), clocks: []clock{{of: "this machine"}}}
	var err error
	if k.state, err = register.Look(ctx, js, prefix); err != nil {
		return nil, err
	}
	k.addFloor("the register", k.state.Floor)
	k.addTime("the latest decision", k.state.Decided)
	floor, err := agreement.Floor(ctx, js, prefix)
	if err != nil {
		return nil, err
	}
	k.addFloor("bucket "+agreement.BucketName(prefix), floor)
	for _, bucket := range []string{
		register.BucketName(prefix), agreement.BucketName(prefix), lease.ClockBucketName(prefix), enrich.BucketName(prefix),
	} {
		stream := kv.StreamName(bucket)
		if !Allowed(ctx, js, rights.Publish(rights.StreamInfo(stream))) {
			continue // another user's
		}
		asked := now()
		found, err := js.Stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("bucket %s: %w", bucket, err)
		}
		k.found = true
		info := found.CachedInfo()
		k.addTime("the latest entry of bucket "+bucket, info.State.LastTime)
		k.addServer(info.TimeStamp, asked)
	}
	return k, nil
}

// addServer adds the NATS server's clock, which showed that time in the reply to
// a request.
func (k *known) addServer(at, asked time.Time) {
	k.clocks = append(k.clocks, clock{"the NATS server", at.Sub(asked.Add(k.local().Sub(asked) / 2))})
}

// Allowed reports whether the user has rights. If the server does not answer, it
// is true. A denied request would never be answered.
func Allowed(ctx context.Context, js jetstream.JetStream, need rights.Rights) bool {
	if js.Options().Domain+js.Options().APIPrefix != "" {
		return true // unknown
	}
	granted, err := natsconn.RequestPermissions(ctx, js.Conn())
	return err != nil || granted.Check(need) == nil
}
