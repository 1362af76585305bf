package recovery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/backup"
	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
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

	// ErrUnknown means that no process has the name that is to be ignored.
	ErrUnknown = problem.New(problem.Invalid, "no such process")

	// ErrClaimed means that only processes report numbers far above the time, and
	// nobody has confirmed them.
	ErrClaimed = problem.New(problem.Invalid, "only processes report numbers far above the time and all buckets")

	// ErrNoneLeft means that something knows a floor with no IDs above it.
	ErrNoneLeft = problem.New(problem.Invalid, "no IDs are left above an earlier raise")

	// ErrEmpty means that there is no installation to raise.
	ErrEmpty = problem.New(problem.NoneToRaise, "nothing to raise: NATS has no bucket of an installation, and no process of one answers")

	// ErrTooNarrow means that the column max_id cannot hold the raised IDs.
	ErrTooNarrow = problem.New(problem.Invalid, "the column max_id is too narrow")

	// ErrRaiseFirst means that only a raise of all tags may decide.
	ErrRaiseFirst = problem.New(problem.MustRaise, "the list has a floor, which needs a decision, but all tags must be raised first")

	// ErrOther means that NATS has another installation than the backup.
	ErrOther = problem.New(problem.Invalid, "NATS has another installation than the backup")

	// ErrPrefix means that the backup is of another prefix.
	ErrPrefix = problem.New(problem.Invalid, "the backup is of another prefix")
)

// Wish is what a command asks for: a raise of all tags; with a backup, a restore,
// which ends with such a raise; or with a list, an import.
//
// Without numbers all tags are raised above the time in microseconds since 1970.
// Time never comes back: whatever was restored, however often, the next raise
// lies above all that was granted, as long as no tag reserves more than a
// million numbers a second on average.
type Wish struct {
	By    int64           // IDs to skip of every tag, 1 to [MaxRaiseAll]; 0: by the time
	Lifts []register.Lift // tags that are raised by a number instead, of the same range

	// Backup is restored. InPlaceOf is the ID of an installation whose place it
	// takes: one that processes made while the data was lost, and whose entries
	// stay. Replicas are those of buckets that are created; 0: as in the backup.
	// Anyway raises all tags even if nothing is missing.
	Backup    *backup.Backup
	InPlaceOf string
	Replicas  int
	Anyway    bool

	List *tags.Listing // is imported

	// Ignore are instances whose reports and claims count for nothing. The decision
	// has loaders ignore their claims, too.
	Ignore []string

	Built time.Time // of this program; zero if unknown
}

// installation returns the ID that the installation is to have, or "".
func (w Wish) installation() string {
	if w.Backup == nil {
		return ""
	}
	return w.Backup.Installation
}

// Plan is what a command is about to do, as far as evidence shows it. [Plan.Look]
// adds the survey of the tags.
type Plan struct {
	Target int64     // the lowest first ID of names without an entry; 0: no decision is due
	Time   time.Time // whose microseconds the target has; zero if all tags are raised by a number
	Clock  time.Time // the present, by the clock that is furthest ahead
	Newest time.Time // the latest time that the installation knows; zero if none

	// Future is how far Newest lies ahead of the clocks, and Time with it; 0 if
	// it agrees with them. NewestOf is where it was found.
	Future   time.Duration
	NewestOf string

	Unconfirmed bool      // a restore has no clock but this machine's
	Issued      time.Time // if set, snowflake IDs may have been issued until then, and worker IDs wait
	Silent      []string  // processes that did not say what they know
	Ignored     []string  // instances whose reports count for nothing

	// Claims are numbers that only processes report, and that lie more than
	// [register.Slack] above the time and all that is stored: shown, and never taken
	// without a prompt. Those of tags are in the survey.
	Claims []string

	Missing   bool   // there is no register
	Regressed string // why the register may lack grants; may be empty

	// Of a restore.
	Replicas                     int    // of buckets that are created
	Replaced                     string // ID of the installation whose place the backup takes
	Kept                         []Differing
	Settings, Templates, Records []string // keys, patterns and keys that are put back

	// Resources are the streams and buckets that a restore creates at last, if they
	// are missing. The command sets them.
	Resources []kv.Resource

	Survey Survey

	wish     Wish
	evidence *Evidence
	raise    register.Raise
	settings map[string]string // all that the backup has, by key
}

// Differing is a setting that stays, although the backup has another value.
type Differing struct{ Key, Here, Backup string }

// Nothing reports whether a restore found nothing missing and no fault.
func (p *Plan) Nothing() bool {
	s := p.Survey
	return p.wish.Backup != nil && !p.Missing && p.Regressed == "" && p.Replaced == "" &&
		s.Missing.Count+s.Rowless.Count+s.Lower.Count+s.Strict.Count+len(p.Settings)+len(p.Templates)+len(p.Records) == 0
}

// Make decides what to do. It reads nothing and writes nothing. Errors: those
// above, but for [ErrTooNarrow]; those of templates and of an
// agreement.ErrForeignStore.
func Make(e *Evidence, w Wish) (*Plan, error) {
	known := *e
	e = &known
	if !w.Built.IsZero() {
		e.addTime("this program's build", w.Built)
	}
	p := &Plan{wish: w, evidence: e, Missing: e.state.Missing, Replicas: 1, Silent: e.silent, Ignored: e.ignored, Issued: e.issued}
	switch {
	case w.List != nil:
		return p, p.decideImport()
	case w.Backup != nil:
		if err := p.compare(w.Backup); err != nil {
			return nil, err
		}
	case !e.found && e.store.Kind() == backend.JetStream: // a database may have tags
		return nil, ErrEmpty
	}
	return p, p.decideRaise()
}

// merged are the settings that are not put back as they are: they only rise, or
// follow the decision.
var merged = []string{agreement.FloorKey, agreement.DecidedKey, templates.Key, lease.OutageKey}

// identities are the settings that name buckets. They may be those of new
// buckets.
var identities = []string{register.ConfigKey, lease.ClockIDKey}

// compare compares the backup with what is there, and plans what is put back.
func (p *Plan) compare(b *backup.Backup) error {
	e := p.evidence
	if b.Prefix != e.prefix {
		return fmt.Errorf("%w: %s, and this is %s; give --prefix %s", ErrPrefix, b.Prefix, e.prefix, b.Prefix)
	}
	e.addFloor("the backup", b.Floor)
	e.addTime("the backup", b.Taken)
	e.addTime("the latest decision in the backup", b.List.Decided)
	switch {
	case e.alone:
	case p.wish.Replicas > 0:
		p.Replicas = p.wish.Replicas
	default:
		p.Replicas = b.Replicas
	}
	p.settings = maps.Clone(b.Config)
	for _, key := range slices.Sorted(maps.Keys(b.Config)) {
		want := b.Config[key]
		here, found := e.settings[key]
		switch {
		case key == agreement.StoreKey && !found && want != e.store.Name():
			return &agreement.ForeignStoreError{Bucket: agreement.BucketName(e.prefix), Installed: want, Given: e.store.Name()}
		case key == agreement.InstallationKey && found:
			if err := p.compareInstallation(b, here); err != nil {
				return err
			}
		case key == lease.LayoutKey && found && here != want:
			return fmt.Errorf("%w: its snowflake IDs have the layout %s, and those of the backup %s; stop its workers, and delete key %s of bucket %s",
				ErrOther, here, want, key, agreement.BucketName(e.prefix))
		case slices.Contains(merged, key):
		case !found && key == lease.ClockIDKey && e.alone: // any bucket is as good as that: no process has a worker ID
		case !found:
			p.Settings = append(p.Settings, key)
		case here != want && !slices.Contains(identities, key):
			p.Kept = append(p.Kept, Differing{key, here, want})
		}
	}
	lost := slices.Contains(p.Settings, agreement.InstallationKey)
	if p.wish.InPlaceOf != "" && p.Replaced == "" && lost {
		return fmt.Errorf("%w: NATS has none, so there is none to replace", ErrOther)
	}
	if _, known := b.Config[lease.ClockIDKey]; !known && e.clockLost && !e.alone && lost {
		// The first worker may have come after the backup. Until an operator has
		// waited, no new one may have its ID.
		p.settings[lease.ClockIDKey] = "lost " + b.Installation
		p.Settings = append(p.Settings, lease.ClockIDKey)
	}
	for _, t := range b.List.Templates {
		// A template here may promise more of its dates than that of the backup, so
		// that names which were in use could begin at 1. One that overlaps stays, and
		// that of the backup is not put back.
		if _, _, err := e.templates.Join(templates.List{t}); err != nil && !errors.Is(err, templates.ErrOverlap) {
			return err
		}
		if _, err := e.templates.Named(t.Pattern); err != nil {
			p.Templates = append(p.Templates, t.Pattern)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.Enrichments)) {
		if !e.records[key] {
			p.Records = append(p.Records, key)
		}
	}
	return nil
}

// compareInstallation refuses another installation than that of the backup,
// unless the backup takes its place.
func (p *Plan) compareInstallation(b *backup.Backup, here string) error {
	id, since, _ := strings.Cut(here, " ")
	switch {
	case id == p.wish.InPlaceOf && here != b.Config[agreement.InstallationKey]: // perhaps with the same ID
		p.Replaced = id
		return nil
	case id == b.Installation:
		return nil
	}
	return fmt.Errorf("%w: %s, since %s, with %s; the backup is of %s; if processes made that one after the data was lost, take its place: --replace-installation %s",
		ErrOther, id, since, format.Of(int64(p.evidence.state.Entries), "tag"), b.Installation, id)
}

// decideRaise decides how far tags are raised: above the time, and above whatever
// is known of an earlier raise.
func (p *Plan) decideRaise() error {
	e, w := p.evidence, p.wish
	p.Regressed = e.fault()
	p.raise = register.Raise{By: w.By, Lifts: w.Lifts, Held: e.ends()}
	if p.counts() && e.floor.value > e.state.Floor {
		return fmt.Errorf("%w: %s has seen %d as the lowest first ID of new tags, and the register has %d", ErrUndone, e.floor.of, e.floor.value, e.state.Floor)
	}
	p.Clock, p.Newest, p.NewestOf, p.Future = e.now(e.at), e.newest.value, e.newest.of, e.future()
	if b := w.Backup; b != nil {
		p.Unconfirmed = len(e.clocks) == 1 && p.Missing
		p.raise.Since, p.raise.List = b.Taken, b.List.Tags
		if p.Regressed == "" && !e.state.Knows(b.Decisions) {
			p.Regressed = "it lacks a raise that the backup has"
		}
		if p.raise.List == nil { // no tags, but a list
			p.raise.List = []store.Tag{}
		}
	}
	p.claim("%s reports %d as the lowest first ID of new tags", e.floor)
	p.raise.Workers = e.heldTags(p.raise.List)
	if w.By > 0 {
		p.Target = store.Beyond(e.state.Floor, w.By)
	} else {
		if err := e.checkClocks(); err != nil {
			return err
		}
		if store.Left(e.floor.value) <= register.Slack {
			err := fmt.Errorf("%w: %s has seen %d as the lowest first ID of new tags", ErrNoneLeft, e.floor.of, e.floor.value)
			if claimed := p.CheckClaims(); claimed != nil { // so only a process reports it
				err = fmt.Errorf("%w; %w; to leave out what a process reports: --ignore INSTANCE", err, claimed)
			}
			return err
		}
		p.Time = e.time(e.at)
		held := e.heldBelow(p.Time)
		p.claim("%s reports that it was granted IDs up to %d", held)
		p.Target = max(p.Time.UnixMicro(), store.Beyond(max(e.floor.value, held.value), register.Slack))
	}
	if p.Future > 0 {
		// A clock was ahead, so nobody knows how long ago entries were written. Tags
		// above the target are raised as if that was in 1970.
		p.raise.Since = time.UnixMicro(1)
	}
	return nil
}

// claim adds a number to the claims, unless it is plausible.
func (p *Plan) claim(format string, number told[int64]) {
	if number.value > p.evidence.plausible(0) {
		p.Claims = append(p.Claims, fmt.Sprintf(format, number.of, number.value))
	}
}

// CheckClaims returns an [ErrClaimed] if only processes report numbers far above
// the time and all that is stored.
func (p *Plan) CheckClaims() error {
	claims := slices.Clone(p.Claims)
	if tags := p.Survey.Claimed; tags.Count > 0 {
		claims = append(claims, "processes report grants of "+tags.String())
	}
	if len(claims) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrClaimed, strings.Join(claims, "; "))
}

// counts reports whether the raise counts a number from the entries.
func (p *Plan) counts() bool { return p.wish.By > 0 || len(p.wish.Lifts) > 0 }

// rule returns the rule of the entries, for a target.
func (p *Plan) rule(target int64) register.Rule {
	if p.wish.List != nil {
		return register.Import{List: p.wish.List.Tags}
	}
	raise := p.raise
	raise.Target = target
	return raise
}
