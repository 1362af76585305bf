package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/backup"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
	"github.com/idworker/idworker/worker"
)

// Evidence is what an installation knows about its earlier raises, about the
// time, and, if a backup is to be restored, about what that has. A loss can take
// away any part of it, so the highest counts.
type Evidence struct {
	at     time.Time // of this machine, when all was known
	alone  bool      // no other process is connected
	prefix messages.Prefix
	store  backend.Backend

	state  register.Summary
	floor  told[int64]            // the highest floor
	stored int64                  // the highest floor that is known without a process
	newest told[time.Time]        // the latest time
	held   map[string]told[int64] // above the IDs that processes were granted, by tag
	tags   map[string]store.Tag   // these tags, as workers report them
	most   []told[int64]          // highest end that each worker holds, below 2^53
	silent []string               // processes that did not say
	wrong  string                 // why the register has regressed, by a process or the witness

	// Of a wish: instances whose reports and claims are left out.
	ignored []string

	// The processes that answered, by instance, and instances that did not.
	answered map[string]worker.Report
	absent   []string

	clocks []clock
	found  bool      // a bucket of the installation, or a process that answers
	issued time.Time // snowflake IDs may have been issued until then, and no bucket has the time

	// Of a restore: what is there of the backup's settings, by key, of its records,
	// and of templates.
	settings  map[string]string
	records   map[string]bool
	templates templates.List
	clockLost bool // the clock bucket is missing
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

// Ask returns what buckets, processes and the witness report. It writes nothing.
// An import that decides nothing needs the state of the register alone.
func Ask(ctx context.Context, i *Site, w Wish) (*Evidence, error) {
	e := &Evidence{alone: i.alone(), prefix: i.prefix, store: i.source, held: make(map[string]told[int64]), ignored: w.Ignore, clocks: []clock{{of: "this machine"}}}
	var err error
	if e.state, err = register.Look(ctx, i.js, i.prefix); err != nil || w.List != nil && !w.decides(e.state) {
		return e, err
	}
	err = e.askBuckets(ctx, i)
	switch {
	case err != nil:
	case e.alone:
		err = e.askWitness(ctx, i)
	default:
		err = e.askProcesses(ctx, i, w.installation())
	}
	if err == nil && w.Backup != nil {
		err = e.askSettings(ctx, i, w.Backup)
	}
	e.at = i.now()
	return e, err
}

// addFloor adds a floor that is known without a process.
func (e *Evidence) addFloor(of string, floor int64) {
	e.stored = max(e.stored, floor)
	e.claimFloor(of, floor)
}

// claimFloor adds a floor that a process reports.
func (e *Evidence) claimFloor(of string, floor int64) {
	if floor > e.floor.value {
		e.floor = told[int64]{floor, of}
	}
}

// hold adds the end of what a process was granted of a tag.
func (e *Evidence) hold(of, tag string, end int64) {
	if end > e.held[tag].value {
		e.held[tag] = told[int64]{end, of}
	}
}

func (e *Evidence) addTime(of string, t time.Time) {
	if t.After(e.newest.value) {
		e.newest = told[time.Time]{t, of}
	}
}

// addServer adds the NATS server's clock, which showed that time in the reply to
// a request.
func (e *Evidence) addServer(at, asked, replied time.Time) {
	e.clocks = append(e.clocks, clock{"the NATS server", at.Sub(asked.Add(replied.Sub(asked) / 2))})
}

// askBuckets adds what the buckets of the installation know.
func (e *Evidence) askBuckets(ctx context.Context, i *Site) error {
	e.addFloor("the register", e.state.Floor)
	e.addTime("the latest decision", e.state.Decided)
	floor, err := agreement.Floor(ctx, i.js, i.prefix)
	if err != nil {
		return err
	}
	e.addFloor("bucket "+agreement.BucketName(i.prefix), floor)
	for _, bucket := range []string{
		register.BucketName(i.prefix), agreement.BucketName(i.prefix), lease.ClockBucketName(i.prefix), enrich.BucketName(i.prefix),
	} {
		stream := kv.StreamName(bucket)
		if !natsconn.Allowed(ctx, i.js, rights.Publish(rights.StreamInfo(stream))) {
			continue // another user's
		}
		asked := i.now()
		found, err := i.js.Stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("bucket %s: %w", bucket, err)
		}
		e.found = true
		info := found.CachedInfo()
		e.addTime("the latest entry of bucket "+bucket, info.State.LastTime)
		e.addServer(info.TimeStamp, asked, i.now())
	}
	return nil
}

// askWitness adds what the witness of a folder has noted.
func (e *Evidence) askWitness(ctx context.Context, i *Site) error {
	witness := i.folder.Witness()
	floor, noted, err := witness.Floor(i.prefix)
	if err != nil {
		return err
	}
	e.addFloor("the witness", floor)
	e.addTime("the witness", noted)
	e.found = e.found || !noted.IsZero()
	var damaged *embedded.RecoverError
	if err := i.folder.Compare(ctx, i.js); errors.As(err, &damaged) {
		e.wrong = damaged.Err.Error()
	} else if err != nil {
		return err
	}
	if noted.Sub(i.now()) <= backup.MaxClockDiff {
		return nil
	}
	err = witness.CompareBucket(ctx, i.js, lease.ClockBucketName(i.prefix))
	if errors.Is(err, store.ErrRegressed) {
		e.issued = noted
		return nil
	}
	return err
}

// askProcesses adds what processes report: those of the installation, and of
// another that it is restored to be, or "".
func (e *Evidence) askProcesses(ctx context.Context, i *Site, other string) error {
	if !natsconn.Allowed(ctx, i.js, worker.AskReportsRights()) {
		e.silent = append(e.silent, "all processes (this user may not list them)")
		return nil
	}
	var expected []string
	if natsconn.Allowed(ctx, i.js, lease.ListRights(i.prefix)) {
		holdings, _, err := lease.List(ctx, i.js, i.prefix, kv.ByConsumer)
		if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
		for _, h := range holdings {
			if h.Instance != "" {
				expected = append(expected, h.Instance)
			}
		}
	}
	asked := i.now()
	reports, err := worker.AskReports(ctx, i.js.Conn(), i.prefix, expected)
	if err != nil && !errors.Is(err, worker.ErrNoReports) {
		return err
	}
	installation, err := agreement.LookupID(ctx, i.js, i.prefix)
	if err != nil {
		return err
	}
	if err := e.checkIgnored(reports, expected); err != nil {
		return err
	}
	expected = slices.DeleteFunc(expected, e.ignores)
	for _, r := range reports {
		expected = slices.DeleteFunc(expected, func(instance string) bool { return instance == r.Instance })
		if installation == "" || r.Stats.Installation == installation || r.Stats.Installation == other {
			e.addReport(r, asked, i.now())
		}
	}
	e.absent = expected
	for _, instance := range expected {
		e.silent = append(e.silent, instance+" (does not answer)")
	}
	return nil
}

// ignores reports whether what an instance says is left out.
func (e *Evidence) ignores(instance string) bool { return slices.Contains(e.ignored, instance) }

// checkIgnored returns an error if an instance that is to be ignored is unknown: it
// neither answers nor holds a worker ID, and no process repeats its claim.
func (e *Evidence) checkIgnored(reports []worker.Report, holders []string) error {
	known, names := slices.Clone(holders), make([]string, 0, len(reports))
	for _, r := range reports {
		known, names = append(known, r.Instance), append(names, nameOf(r))
		for _, c := range r.Claims {
			known = append(known, c.By)
		}
	}
	for _, instance := range e.ignored {
		if !slices.Contains(known, instance) {
			return fmt.Errorf("%w: %s; these answer: %s", ErrUnknown, instance, cmp.Or(strings.Join(names, ", "), "none"))
		}
	}
	return nil
}

// addReport adds what a process reported between two moments, unless it is to be
// ignored.
func (e *Evidence) addReport(r worker.Report, asked, replied time.Time) {
	e.found = true
	if e.ignores(r.Instance) {
		return
	}
	of := "process " + nameOf(r)
	if e.answered == nil {
		e.answered = make(map[string]worker.Report)
	}
	e.answered[r.Instance] = r
	if r.Stopped != "" {
		e.wrong = of + " grants nothing: " + r.Stopped
	}
	if r.Time.IsZero() { // nothing follows from it, not even for the clocks
		e.silent = append(e.silent, r.Instance+" (names no time)")
		return
	}
	ahead := time.Duration(0)
	switch {
	case r.Time.Before(asked):
		ahead = r.Time.Sub(asked)
	case r.Time.After(replied):
		ahead = r.Time.Sub(replied)
	}
	e.clocks = append(e.clocks, clock{of, ahead})
	e.claimFloor(of, max(r.Floor, r.BufferFloor))
	for _, c := range r.Claims {
		if by := "process " + c.By; !e.ignores(c.By) {
			if c.By == r.Instance {
				by = of
			}
			e.claimFloor(by, c.Floor)
			e.hold(by, c.Tag, c.Next)
		}
	}
	e.most = append(e.most, told[int64]{r.Stats.Highest, of})
	if e.tags == nil {
		e.tags = make(map[string]store.Tag)
	}
	for _, t := range r.Stats.Tags {
		e.hold(of, t.Tag, t.Use.High)
		tag := store.Tag{Name: t.Tag, Next: e.held[t.Tag].value, Order: store.Order(t.Order), Step: max(t.Configured, e.tags[t.Tag].Step)}
		if e.tags[t.Tag].Order == store.Strict { // one that missed it takes the tag for trend
			tag.Order = store.Strict
		}
		if tag.Next > 0 && tag.Order.Check() == nil {
			e.tags[t.Tag] = tag
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

// askSettings adds what is there of a backup's settings, templates and records.
func (e *Evidence) askSettings(ctx context.Context, i *Site, b *backup.Backup) (err error) {
	if e.clockLost, err = lease.ClockLost(ctx, i.js, i.prefix); err != nil {
		return err
	}
	e.settings, e.records = make(map[string]string), make(map[string]bool)
	for key := range b.Config {
		here, found, err := agreement.Lookup(ctx, i.js, i.prefix, key)
		if err != nil {
			return err
		}
		if found {
			e.settings[key] = here
		}
	}
	for key := range b.Enrichments {
		record, err := kv.Get(ctx, i.js, enrich.BucketName(i.prefix), key)
		if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
		e.records[key] = record.Revision > 0 // a deleted one stays deleted
	}
	e.templates, err = templates.Read(ctx, i.js, i.prefix)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		err = nil
	}
	return err
}

// now returns the time of the clock that is furthest ahead, while this machine's
// clock shows the given time.
func (e *Evidence) now(local time.Time) time.Time {
	ahead := time.Duration(0)
	for _, c := range e.clocks {
		ahead = max(ahead, c.ahead)
	}
	return local.Add(ahead)
}

// time returns the time of a raise and of its decision: that of the clocks, and
// not before any time that the installation knows. A known time from the future
// is the trace of a clock that was ahead. Tags may have been raised by that clock
// although nothing is left that has noted their floor, so a lower target could
// repeat IDs.
func (e *Evidence) time(local time.Time) time.Time {
	if now := e.now(local); now.After(e.newest.value) {
		return now
	}
	return e.newest.value
}

// future returns how far the newest known time lies ahead of the clocks, or 0
// if it agrees with them.
func (e *Evidence) future() time.Duration {
	if ahead := e.newest.value.Sub(e.now(e.at)); ahead > backup.MaxClockDiff {
		return ahead
	}
	return 0
}

// checkClocks returns an error if the clocks at hand differ: one of them is
// wrong now, and can be set right.
func (e *Evidence) checkClocks() error {
	byLead := func(a, b clock) int { return cmp.Compare(a.ahead, b.ahead) }
	first, last := slices.MinFunc(e.clocks, byLead), slices.MaxFunc(e.clocks, byLead)
	if last.ahead-first.ahead <= backup.MaxClockDiff {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrClock, backup.Differ(e.at.Add(first.ahead), first.of, e.at.Add(last.ahead), last.of))
}

// fault returns why the register may lack grants, or "".
func (e *Evidence) fault() string {
	switch {
	case e.state.Marked > 0:
		return "a raise was interrupted"
	case e.wrong != "":
		return e.wrong
	case e.floor.value > e.state.Floor:
		return fmt.Sprintf("%s has seen %d as the lowest first ID of new tags, and the register has %d", e.floor.of, e.floor.value, e.state.Floor)
	}
	return ""
}

// heldBelow returns the highest end of a segment that a worker holds, of those
// that a raise by time may have granted: up to some hours ahead of the time.
// Other tags began above it.
func (e *Evidence) heldBelow(now time.Time) (highest told[int64]) {
	for _, end := range e.most {
		if end.value <= now.UnixMicro()+10*register.Slack && end.value > highest.value {
			highest = end
		}
	}
	return highest
}

// plausible returns the highest number that processes alone may report without a
// prompt: a raise goes that far above the time, and above what is stored.
func (e *Evidence) plausible(stored int64) int64 {
	return store.Beyond(max(e.time(e.at).UnixMicro(), e.stored, stored), register.Slack)
}

// ends returns the ends of what processes were granted, by tag.
func (e *Evidence) ends() map[string]int64 {
	ends := make(map[string]int64, len(e.held))
	for tag, end := range e.held {
		ends[tag] = end.value
	}
	return ends
}

// heldTags returns the tags that workers hold, sorted by name, but for those of a
// list that is put back.
func (e *Evidence) heldTags(list []store.Tag) (held []store.Tag) {
	for _, name := range slices.Sorted(maps.Keys(e.tags)) {
		tag := e.tags[name]
		tag.Step = cmp.Or(tag.Step, heldStep)
		if _, listed := slices.BinarySearchFunc(list, tag, byName); !listed {
			held = append(held, tag)
		}
	}
	return held
}

func byName(a, b store.Tag) int { return cmp.Compare(a.Name, b.Name) }

// heldStep is the step of a tag for which workers report none: a strict tag.
const heldStep = 1000
