package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
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

var (
	// ErrOther means that NATS has another installation than the backup.
	ErrOther = problem.New(problem.Invalid, "NATS has another installation than the backup")

	// ErrNothing means that no tag, setting or record is missing.
	ErrNothing = errors.New("nothing is missing")

	// ErrPrefix means that the backup is of another prefix.
	ErrPrefix = problem.New(problem.Invalid, "the backup is of another prefix")
)

// Restoring puts a backup back. It deletes nothing: settings that are missing
// are put back, the register gets the tags that it lacks, and every tag is
// raised above the time, whatever was granted since the backup. Each step only
// adds or raises, so a restore may end anywhere, and be repeated.
type Restoring struct {
	Backup Backup

	// Replace is the ID of an installation whose place the backup takes: one that
	// processes made while the data was lost. Its entries stay.
	Replace string

	// Salvage replaces a register that cannot be opened: it saves the entries that
	// can be read before they are deleted. Nil refuses such a register.
	Salvage func(entries map[string]string) error

	Replicas int       // of buckets that are created; 0 for those of the backup
	Built    time.Time // of this program; zero if unknown

	// Resources returns the streams and buckets that are created at last if they
	// are missing.
	Resources func(replicas int) []kv.Resource

	// Confirm is called before anything is written. An error ends the restore;
	// after [ErrNothing] only missing resources are created.
	Confirm func(RestorePlan) error
	Report  func(tags.Change)
}

// RestorePlan is what a restore is about to do.
type RestorePlan struct {
	tags.Plan
	Keys        []string // settings that are put back
	Kept        []Differing
	Templates   []string // patterns that are put back
	Enrichments []string // keys of records that are put back
	Replaced    string   // ID of the installation whose place the backup takes
}

// Differing is a setting that stays, although the backup has another value.
type Differing struct{ Key, Here, Backup string }

// Nothing reports whether nothing is missing and no fault was found.
func (p RestorePlan) Nothing() bool {
	lostOrder := func(tag store.Tag) bool { return tag.Order == store.Strict }
	return !p.Missing && p.Regressed == "" && p.Replaced == "" && !slices.ContainsFunc(p.Lost.Orders, lostOrder) &&
		len(p.Lost.Missing)+len(p.Lost.Rowless)+len(p.Lost.Lower)+len(p.Keys)+len(p.Templates)+len(p.Enrichments) == 0
}

// RestoreResult is the result of a restore.
type RestoreResult struct {
	tags.Raised
	Restart []string // processes of another installation
	Undone  error    // resources that could not be created
	Fewer   []string // resources with fewer replicas than wanted
	Wanted  int      // replicas
	Clock   error    // a *lease.ClockLostError; or nil
}

// restore is a restore under way.
type restore struct {
	Restoring
	store  string // its name
	alone  bool   // no other process is connected
	raised *tags.Restored
	plan   RestorePlan
}

// Restore restores an installation on a NATS server. Errors: [ErrOther],
// [ErrPrefix], those of tags.RaiseAll.
func (r Restoring) Restore(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, source backend.Backend) (done RestoreResult, err error) {
	under := &restore{Restoring: r, store: source.Name()}
	raising, err := under.raising(prefix)
	if err != nil {
		return done, err
	}
	done.Raised, err = tags.RaiseAll(ctx, js, prefix, source, raising)
	switch {
	case errors.Is(err, ErrNothing): // an earlier restore may have ended before the rest
		_, err = tags.Follow(ctx, js, prefix)
	case err != nil && !errors.Is(err, tags.ErrBehind): // the rest does not depend on that
		return done, err
	}
	behind := err
	done.Clock = lease.RestoreClock(ctx, js, prefix, under.Replicas)
	if !errors.Is(done.Clock, lease.ErrClockLost) {
		done.Undone, done.Clock = done.Clock, nil
	}
	for _, resource := range r.Resources(under.Replicas) {
		if !tags.Allowed(ctx, js, rights.Publish(resource.InfoSubject())) {
			continue // another user's
		}
		if err := resource.Ensure(ctx, js); err != nil {
			done.Undone = errors.Join(done.Undone, fmt.Errorf("%s: %w", resource, err))
			continue
		}
		if found, err := resource.Look(ctx, js); err == nil && found.Replicas > 0 && found.Replicas < under.Replicas {
			done.Fewer = append(done.Fewer, resource.String())
		}
	}
	done.Wanted = under.Replicas
	done.Restart, err = r.others(ctx, js, prefix)
	done.Restart = append(done.Restart, done.Strangers...)
	return done, errors.Join(behind, err)
}

// RestoreFolder restores the data folder of a stopped embedded server, and
// creates it if it is missing. It returns the folder's path.
func (r Restoring) RestoreFolder(ctx context.Context, at embedded.Config, prefix messages.Prefix, source backend.Backend) (folder string, done RestoreResult, err error) {
	under := &restore{Restoring: r, store: source.Name(), alone: true}
	raising, err := under.raising(prefix)
	if err != nil {
		return "", done, err
	}
	_, missing := os.Stat(at.Folder)
	at.Create = true
	folder, done.Target, err = tags.RaiseFolder(ctx, at, prefix, source, raising)
	if err != nil && errors.Is(missing, fs.ErrNotExist) && done.Target == 0 { // whole, or not at all
		err = errors.Join(err, os.RemoveAll(at.Folder))
	}
	return folder, done, err
}

// raising returns the raise that is the heart of the restore.
func (r *restore) raising(prefix messages.Prefix) (tags.Raising, error) {
	b := r.Backup
	if b.Prefix != prefix {
		return tags.Raising{}, fmt.Errorf("%w: %s, and this is %s; give --prefix %s", ErrPrefix, b.Prefix, prefix, b.Prefix)
	}
	switch {
	case r.alone:
		r.Replicas = 1
	case r.Replicas == 0:
		r.Replicas = b.Replicas
	}
	r.raised = &tags.Restored{
		Installation: b.Installation,
		Tags:         b.List.Tags, Templates: b.List.Templates, Taken: b.Taken, Floor: b.Floor, Decided: b.Decisions, Latest: b.List.Decided, Replicas: r.Replicas, Salvage: r.Salvage, Replaced: b.Replaced,
		Look:    func(ctx context.Context, js jetstream.JetStream) error { return r.look(ctx, js, prefix) },
		Prepare: func(ctx context.Context, js jetstream.JetStream) error { return r.prepare(ctx, js, prefix) },
	}
	return tags.Raising{
		Restored: r.raised, Built: r.Built, Report: r.Report,
		Confirm: func(p tags.Plan) error {
			r.plan.Plan = p
			return r.Confirm(r.plan)
		},
	}, nil
}

// merged are the settings that are not put back as they are: they only rise, or
// follow the decision.
var merged = []string{agreement.FloorKey, agreement.DecidedKey, templates.Key, lease.OutageKey}

// identities are the settings that name buckets. They may be those of new
// buckets.
var identities = []string{register.ConfigKey, lease.ClockIDKey}

// look compares what is there with the backup.
func (r *restore) look(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	r.plan = RestorePlan{}
	clockLost, err := lease.ClockLost(ctx, js, prefix)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(r.Backup.Config)) {
		want := r.Backup.Config[key]
		here, found, err := agreement.Lookup(ctx, js, prefix, key)
		switch {
		case err != nil:
			return err
		case key == agreement.StoreKey && !found && want != r.store:
			return &agreement.ForeignStoreError{Bucket: agreement.BucketName(prefix), Installed: want, Given: r.store}
		case key == agreement.InstallationKey && found:
			if err := r.compareInstallation(ctx, js, prefix, here); err != nil {
				return err
			}
		case key == lease.LayoutKey && found && here != want:
			return fmt.Errorf("%w: its snowflake IDs have the layout %s, and those of the backup %s; stop its workers, and delete key %s of bucket %s",
				ErrOther, here, want, key, agreement.BucketName(prefix))
		case slices.Contains(merged, key):
		case !found && key == lease.ClockIDKey && r.alone && clockLost: // a new bucket is as good: no process has a worker ID
		case !found:
			r.plan.Keys = append(r.plan.Keys, key)
		case here != want && !slices.Contains(identities, key):
			r.plan.Kept = append(r.plan.Kept, Differing{key, here, want})
		}
	}
	if r.Replace != "" && r.plan.Replaced == "" && slices.Contains(r.plan.Keys, agreement.InstallationKey) {
		return fmt.Errorf("%w: NATS has none, so there is none to replace", ErrOther)
	}
	if _, known := r.Backup.Config[lease.ClockIDKey]; !known && clockLost && !r.alone && slices.Contains(r.plan.Keys, agreement.InstallationKey) {
		// The first worker may have come after the backup. Until an operator has
		// waited, no new one may have its ID.
		r.Backup.Config[lease.ClockIDKey] = "lost " + nuid.Next()
		r.plan.Keys = append(r.plan.Keys, lease.ClockIDKey)
	}
	present, err := templates.Read(ctx, js, prefix)
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	for _, t := range r.Backup.List.Templates {
		if _, err := present.Named(t.Pattern); err != nil {
			r.plan.Templates = append(r.plan.Templates, t.Pattern)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Backup.Enrichments)) {
		e, err := kv.Get(ctx, js, enrich.BucketName(prefix), key)
		if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return err
		}
		if e.Revision == 0 {
			r.plan.Enrichments = append(r.plan.Enrichments, key)
		}
	}
	return nil
}

// compareInstallation refuses another installation than that of the backup,
// unless the backup takes its place.
func (r *restore) compareInstallation(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, here string) error {
	id, since, _ := strings.Cut(here, " ")
	switch {
	case id == r.Replace && here != r.Backup.Config[agreement.InstallationKey]: // perhaps with the same ID
		r.plan.Replaced = id
		return nil
	case id == r.Backup.Installation:
		return nil
	}
	state, err := register.Look(ctx, js, prefix)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s, since %s, with %s; the backup is of %s; if processes made that one after the data was lost, take its place: --replace-installation %s",
		ErrOther, id, since, format.Of(int64(state.Entries), "tag"), r.Backup.Installation, id)
}

// prepare puts settings and records back. The identity of a lost register is
// first: from then on no process makes another, in which tags could begin at 1.
// The installation's ID is last: it lets pinned processes in.
func (r *restore) prepare(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	agreed, err := agreement.Open(ctx, js, prefix)
	if err != nil {
		return err
	}
	lost := r.Backup.Config[register.ConfigKey]
	if r.plan.Missing && slices.Contains(r.plan.Keys, register.ConfigKey) {
		made, err := agreed.Agree(ctx, register.ConfigKey, lost)
		if err == nil && made != lost {
			err = fmt.Errorf("%w: its register was made a moment ago", ErrOther)
		}
		if err != nil {
			return err
		}
	}
	for _, key := range r.plan.Keys {
		if err == nil && key != agreement.InstallationKey {
			_, err = agreed.Agree(ctx, key, r.Backup.Config[key])
		}
	}
	if err == nil {
		err = agreed.RaiseFloor(ctx, r.Backup.Floor)
	}
	if outage := r.Backup.Config[lease.OutageKey]; err == nil && outage != "" {
		err = lease.RestoreOutage(ctx, js, prefix, outage)
	}
	own := r.Backup.Config[agreement.InstallationKey]
	now := own
	switch {
	case err != nil:
	case r.plan.Replaced != "":
		err = agreed.ReplaceInstallation(ctx, r.plan.Replaced, own)
	default:
		now, err = agreed.Agree(ctx, agreement.InstallationKey, own)
	}
	if id, _, _ := strings.Cut(now, " "); err == nil && id != r.Backup.Installation {
		err = fmt.Errorf("%w: %s, made a moment ago", ErrOther, id)
	}
	if err != nil || len(r.plan.Enrichments) == 0 {
		return err
	}
	if err := kv.Ensure(ctx, js, enrich.Bucket(prefix, r.Replicas)); err != nil {
		return err
	}
	records, err := kv.Open(ctx, js, enrich.BucketName(prefix))
	for _, key := range r.plan.Enrichments {
		if err == nil {
			_, err = records.Update(ctx, key, []byte(r.Backup.Enrichments[key]), 0)
		}
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // an enricher made one
			err = nil
		}
	}
	return err
}

// others names the processes that belong to another installation.
func (r Restoring) others(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) (names []string, err error) {
	if !tags.Allowed(ctx, js, worker.AskReportsRights()) {
		return nil, nil
	}
	reports, err := worker.AskReports(ctx, js.Conn(), prefix, nil)
	if err != nil && !errors.Is(err, worker.ErrNoReports) {
		return nil, err
	}
	for _, p := range reports {
		if p.Stats.Installation != r.Backup.Installation {
			names = append(names, p.Instance+" on "+p.Host)
		}
	}
	return names, nil
}
