package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/agreement"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/store/templates"
)

// Result is what Apply has done.
type Result struct {
	Target int64 // the lowest first ID of new tags; 0: nothing was decided
	Followed

	// Of a restore.
	Restart []string // processes of another installation
	Undone  error    // resources that could not be created
	Fewer   []string // resources with fewer replicas than the plan has
	Clock   error    // a *lease.ClockLostError; or nil
}

// Apply does what the plan says, and reports each tag. It may end anywhere and be
// run again, from Ask on. An error that wraps store.ErrCorrupt is about unreadable
// entries and rows: all else was done. So it was after [ErrBehind] and
// [ErrNotRaised], which are about processes that do not follow the decision.
func Apply(ctx context.Context, i *Site, p *Plan, report func(tags.Change)) (r Result, err error) {
	var corrupt error
	decides := !p.Nothing() || p.wish.Anyway
	if decides {
		if err = p.prepare(ctx, i); err == nil {
			r.Target, corrupt, err = p.decide(ctx, i, report)
		}
		if err != nil {
			return Result{}, err
		}
		i.decided = true
	}
	switch {
	case p.wish.List != nil:
		return r, corrupt
	case i.alone() && decides:
		return r, errors.Join(corrupt, i.folder.Witness().Accept(ctx, i.js, i.prefix, backend.Beside(i.prefix)...))
	case i.alone():
		return r, nil
	}
	if decides {
		r.Followed, err = usual.follow(ctx, i, r.Target, p.evidence)
	} else {
		r.Followed, err = followAgain(ctx, i, p.evidence.ignored)
	}
	if p.wish.Backup != nil {
		p.restoreRest(ctx, i, &r)
	}
	return r, errors.Join(corrupt, err)
}

// prepare creates a missing config bucket. If this machine's clock was the only
// one, the server that answers now has another. If the register is missing, its
// identity and the other settings are put back before it is made.
func (p *Plan) prepare(ctx context.Context, i *Site) error {
	if p.wish.List != nil {
		return nil
	}
	if err := kv.Ensure(ctx, i.js, agreement.Bucket(i.prefix, p.Replicas)); err != nil {
		return err
	}
	if p.Unconfirmed {
		asked := i.now()
		agreed, err := agreement.Open(ctx, i.js, i.prefix)
		if err != nil {
			return err
		}
		p.evidence.at = i.now()
		p.evidence.addServer(agreed.ServerTime(), asked, p.evidence.at)
		if err := p.evidence.checkClocks(); err != nil {
			return err
		}
	}
	if p.Missing {
		return p.putSettings(ctx, i)
	}
	return nil
}

// decide writes what the plan says between a mark, which stops all grants, and a
// decision, which ends that. If the mark disappears, because the register was
// restored or another command has decided, it starts over, unless a number would
// then count from another state. An import that needs no decision just writes.
func (p *Plan) decide(ctx context.Context, i *Site, report func(tags.Change)) (target int64, corrupt, err error) {
	segments, err := p.open(ctx, i)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = segments.Close() }() // all replies have arrived
	if p.Target == 0 {
		corrupt, err = p.write(ctx, i, segments, 0, report)
		return 0, corrupt, err
	}
	target = p.Target
	if !p.Time.IsZero() { // the answer may have taken long
		target = max(target, p.evidence.time(i.now()).UnixMicro())
	}
	for {
		target, corrupt, err = p.decideOnce(ctx, i, segments, target, report)
		if !errors.Is(err, register.ErrUnmarked) || p.counts() || p.wish.List != nil {
			return target, corrupt, err
		}
		floor, failed := agreement.Floor(ctx, i.js, i.prefix) // another command may have decided
		if failed != nil {
			return 0, nil, failed
		}
		target = max(target, store.Beyond(max(floor, segments.Lowest()), register.Slack))
	}
}

// decideOnce is the part from the mark to the decision.
func (p *Plan) decideOnce(ctx context.Context, i *Site, segments *backend.Segments, target int64, report func(tags.Change)) (_ int64, corrupt, err error) {
	mark, err := segments.Mark(ctx, target, register.MarkOptions{Over: p.wish.List == nil, Alone: i.alone()})
	if err != nil {
		return target, nil, err
	}
	corrupt, err = p.write(ctx, i, segments, mark.Target(), report)
	decision := register.Decision{Time: p.evidence.time(i.now()), Ignored: p.wish.Ignore}
	if p.wish.Backup != nil {
		decision.Earlier = p.wish.Backup.Decisions
	}
	return mark.Target(), corrupt, mark.Finish(ctx, err, decision)
}

// write is what happens under the mark, in this order. Unreadable entries and
// rows stay as they are, and are the first error.
func (p *Plan) write(ctx context.Context, i *Site, segments *backend.Segments, target int64, report func(tags.Change)) (corrupt, err error) {
	if err := p.putSettings(ctx, i); err != nil {
		return nil, err
	}
	err = segments.Rewrite(ctx, p.rule(target), func(c register.Effect) { report(p.changeOf(c)) })
	if errors.Is(err, store.ErrCorrupt) && p.wish.List == nil {
		corrupt, err = fmt.Errorf("%w; the others were raised: %w", store.ErrCorrupt, err), nil
	}
	if err == nil {
		err = p.putTemplates(ctx, i, target, report)
	}
	if err == nil {
		err = p.putRecords(ctx, i)
	}
	if err == nil && i.alone() {
		err = i.reserveClock(ctx)
	}
	return corrupt, err
}

// open opens the store. For a raise the register may have regressed, and one that
// the plan shows as missing is made marked, with the target as its first sequence:
// no write of an earlier line can fit there.
func (p *Plan) open(ctx context.Context, i *Site) (*backend.Segments, error) {
	agreed, err := agreement.Open(ctx, i.js, i.prefix)
	if err == nil && !i.moves {
		err = agreed.CheckStore(ctx, i.source.Name())
	}
	if err != nil {
		return nil, err
	}
	config := register.Config{JetStream: i.js, Prefix: i.prefix}
	if p.wish.List != nil {
		segments, err := i.source.Open(ctx, config)
		if err == nil && !i.alone() {
			if err = tags.Hear(ctx, i.js, i.prefix, segments.Register); err != nil {
				err = errors.Join(err, segments.Close())
			}
		}
		return segments, err
	}
	if !p.Missing {
		switch now, err := register.Look(ctx, i.js, i.prefix); {
		case err != nil:
			return nil, err
		case now.Missing: // all tags that the plan shows
			return nil, &store.RegressionError{Bucket: register.BucketName(i.prefix), Reason: "is missing"}
		}
	}
	return i.source.OpenToRaise(ctx, config, max(p.Replicas, agreed.Replicas()), uint64(min(p.Target, 1<<62)), i.alone())
}

// putSettings puts settings back. The identity of a lost register is first: from
// then on no process makes another, in which tags could begin at 1. The
// installation's ID is last: it lets pinned processes in.
func (p *Plan) putSettings(ctx context.Context, i *Site) error {
	b := p.wish.Backup
	if b == nil {
		return nil
	}
	agreed, err := agreement.Open(ctx, i.js, i.prefix)
	if err != nil {
		return err
	}
	if own := b.Config[register.ConfigKey]; p.Missing && slices.Contains(p.Settings, register.ConfigKey) {
		made, err := agreed.Agree(ctx, register.ConfigKey, own)
		if err == nil && made != own {
			err = fmt.Errorf("%w: its register was made a moment ago", ErrOther)
		}
		if err != nil {
			return err
		}
	}
	for _, key := range p.Settings {
		if err == nil && key != agreement.InstallationKey {
			_, err = agreed.Agree(ctx, key, p.settings[key])
		}
	}
	if err == nil {
		err = agreed.RaiseFloor(ctx, b.Floor)
	}
	if outage := b.Config[lease.OutageKey]; err == nil && outage != "" {
		err = lease.RestoreOutage(ctx, i.js, i.prefix, outage)
	}
	own := b.Config[agreement.InstallationKey]
	now := own
	switch {
	case err != nil:
	case p.Replaced != "":
		err = agreed.ReplaceInstallation(ctx, p.Replaced, own)
	default:
		now, err = agreed.Agree(ctx, agreement.InstallationKey, own)
	}
	if id, _, _ := strings.Cut(now, " "); err == nil && id != b.Installation {
		err = fmt.Errorf("%w: %s, made a moment ago", ErrOther, id)
	}
	return err
}

// putTemplates raises the first IDs of templates at or above the target, as
// tags: a lost tag may have begun there. Then it puts templates back.
func (p *Plan) putTemplates(ctx context.Context, i *Site, target int64, report func(tags.Change)) error {
	if p.wish.List != nil {
		return p.importTemplates(ctx, i, report)
	}
	raise := p.raise
	raise.Target = target
	next := func(t templates.Template, written time.Time) int64 {
		if t.First < target {
			return t.First
		}
		return raise.NextAfter(store.Tag{Name: t.Pattern, Next: t.First}, written)
	}
	stored, err := kv.Get(ctx, i.js, agreement.BucketName(i.prefix), templates.Key)
	if err != nil {
		return err
	}
	here, err := templates.Read(ctx, i.js, i.prefix)
	for _, t := range here {
		if first := next(t, stored.Created); first > t.First {
			err = errors.Join(err, templates.Change(ctx, i.js, i.prefix, t.Pattern, func(t *templates.Template) { t.First = max(t.First, first) }))
		}
	}
	if p.wish.Backup == nil {
		return err
	}
	for _, t := range p.wish.Backup.List.Templates {
		t.First = next(t, p.wish.Backup.Taken)
		if err == nil {
			_, err = templates.Import(ctx, i.js, i.prefix, templates.List{t})
		}
		if errors.Is(err, templates.ErrOverlap) {
			err = nil // those that are there stay
		}
	}
	return err
}

// putRecords puts records of enrichments back where the key never existed: a
// living record's plans may be in flight.
func (p *Plan) putRecords(ctx context.Context, i *Site) error {
	if len(p.Records) == 0 {
		return nil
	}
	if err := kv.Ensure(ctx, i.js, enrich.Bucket(i.prefix, p.Replicas)); err != nil {
		return err
	}
	records, err := kv.Open(ctx, i.js, enrich.BucketName(i.prefix))
	for _, key := range p.Records {
		if err == nil {
			_, err = records.Update(ctx, key, []byte(p.wish.Backup.Enrichments[key]), 0)
		}
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // an enricher made one
			err = nil
		}
	}
	return err
}

// reserveClock keeps worker IDs of a folder from being claimed until the time that
// snowflake IDs were issued for is past, unless the bucket of that time has all
// that the witness noted. Without a note, that may have been until now. Tags need
// not wait.
func (i *Site) reserveClock(ctx context.Context) error {
	witness := i.folder.Witness()
	_, noted, err := witness.Floor(i.prefix)
	if err != nil {
		return err
	}
	if noted.IsZero() {
		noted = time.Now()
	} else if err := witness.CompareBucket(ctx, i.js, lease.ClockBucketName(i.prefix)); !errors.Is(err, store.ErrRegressed) {
		return err
	}
	return lease.ReserveLost(ctx, i.js, i.prefix, 1, noted)
}

// restoreRest creates what else is missing, and names the processes that belong to
// another installation.
func (p *Plan) restoreRest(ctx context.Context, i *Site, r *Result) {
	r.Clock = lease.RestoreClock(ctx, i.js, i.prefix, p.Replicas)
	if !errors.Is(r.Clock, lease.ErrClockLost) {
		r.Undone, r.Clock = r.Clock, nil
	}
	for _, resource := range p.Resources {
		if !natsconn.Allowed(ctx, i.js, rights.Publish(resource.InfoSubject())) {
			continue // another user's
		}
		if err := resource.Ensure(ctx, i.js); err != nil {
			r.Undone = errors.Join(r.Undone, fmt.Errorf("%s: %w", resource, err))
			continue
		}
		if found, err := resource.Look(ctx, i.js); err == nil && found.Replicas > 0 && found.Replicas < p.Replicas {
			r.Fewer = append(r.Fewer, resource.String())
		}
	}
	r.Restart = slices.Concat(r.Others, r.Strangers)
}
