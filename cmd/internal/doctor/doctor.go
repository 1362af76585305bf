// Package doctor checks an installation for a role: inbox, syncing of servers,
// rights, streams and buckets, clock, layout, store, and the running processes.
// It changes nothing.
//
// A doctor is a list of checks, in this file; each sends a request and returns
// findings. The caller adds hints about flags and commands. judge.go judges
// running processes, for package status too; permissions.go checks rights.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/loadmsg"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// Findings that a caller may explain.
var (
	// ErrOtherLayout means that the installation does not have the workers'
	// layout.
	ErrOtherLayout = problem.New(problem.OtherLayout, "the installation has another layout")

	// ErrClockOff means that the clock differs too much from the server's.
	ErrClockOff = errors.New("the clock is off")

	// ErrNoAnswer means that a request for IDs was not answered.
	ErrNoAnswer = problem.New(problem.NobodyAnswers, "no worker answers")

	// ErrShared warns that the account has no storage of its own.
	ErrShared = problem.New(problem.StorageFull, "the account has no storage limit, so other accounts can fill the server and stop grants")

	// ErrNearlyFull warns that the account's storage is nearly full.
	ErrNearlyFull = problem.New(problem.StorageFull, "the account's storage is nearly full; a full account stops grants")

	// ErrFills warns that templates may make more tags than the register has room
	// for.
	ErrFills = problem.New(problem.Fills, "room for tags may end, and templates make no more then")

	// ErrRunsOut warns that numbers run out within a year.
	ErrRunsOut = problem.New(problem.RunsOut, "numbers run out")

	// ErrCopies warns of missing copies on a cluster.
	ErrCopies = problem.New(problem.TooFewCopies, "too few copies")

	// ErrPayload warns of a NATS server that accepts only small messages.
	ErrPayload = problem.New(problem.SmallPayload, "max_payload is small, so status may lack tags")

	// ErrDifferent warns of a usable resource that provisioning would change.
	ErrDifferent = problem.New(problem.Different, "not as provisioned")
)

// errRights warns that the user's rights are unknown.
var errRights = errors.New("this user's rights are unknown")

// mayBeRight lists the errors that are warnings.
var mayBeRight = []error{
	durability.ErrSyncUnknown, store.ErrSettingUnknown, worker.ErrNoReports,
	errRights, ErrShared, ErrNearlyFull, ErrFills, ErrRunsOut, ErrCopies, ErrPayload, ErrDifferent,
	enrich.ErrMixedTarget,
}

// answer returns the finding of a check: the error wrong, or if it is nil the
// text right. It is a warning if all errors are in mayBeRight.
func answer(what, right string, wrong error) Finding {
	if wrong == nil {
		return Finding{What: what, Text: right}
	}
	severity := Warning
	for _, part := range problem.Parts(wrong) {
		if !slices.ContainsFunc(mayBeRight, func(w error) bool { return errors.Is(part, w) }) {
			severity = Error
		}
	}
	return Finding{severity, what, wrong.Error(), wrong}
}

// Doctor configures the checks.
type Doctor struct {
	Conn      *nats.Conn // a new one; its error handler is replaced
	JetStream jetstream.JetStream
	Prefix    messages.Prefix
	// Of JetStream, if not the account's own: rights are not checked.
	Domain string

	Role Role
	Tag  string // a caller's only tag; empty: any
	// The installation's; those the role may not open are skipped.
	Resources []kv.Resource
	Store     backend.Backend // not checked if zero

	// Accept servers that do not sync every write.
	AllowUnsynced bool
	MaxClockSkew  time.Duration    // from the server's clock; 0: any
	Layout        snowflake.Layout // that workers are given; zero if unknown
	SkipProcesses bool             // and forecasts

	Explain func(error) string // returns the text of an error; required

	allowed   Permissions      // the user's
	installed snowflake.Layout // zero if unknown
}

// check runs one check.
type check func(context.Context) []Finding

// checks returns the checks for the role, in order.
func (d *Doctor) checks() []check {
	switch {
	case d.Role.is(rights.Caller):
		return []check{d.server, d.requests}
	// Such a role uses the server of its streams, whose owner decides.
	case d.Role.hasOwnStreams():
		return []check{d.server, d.rights, d.resources, d.enrichments}
	}
	return []check{d.server, d.sync, d.payload, d.rights, d.resources, d.enrichments, d.raise, d.storage, d.clock, d.layout, d.store, d.processes}
}

// Examine runs the checks and reports the findings.
func (d *Doctor) Examine(ctx context.Context, report func(Finding)) {
	for _, check := range d.checks() {
		for _, f := range check(ctx) {
			if f.err != nil {
				f.Text = d.Explain(f.err)
			}
			report(f)
			if f.What == inbox {
				return // no reply would arrive
			}
		}
	}
}

// queryTimeout bounds a request.
const queryTimeout = 5 * time.Second

// query runs a function that sends a request. The server never answers a
// request that it denies: the error is a [*natsconn.DeniedError] at once.
func (d *Doctor) query(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	d.Conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			refuse(err)
		}
	})
	err := question(ctx)
	for _, violation := range []error{context.Cause(ctx), err} {
		if err != nil && errors.Is(violation, nats.ErrPermissionViolation) {
			return natsconn.Denied(violation, nil)
		}
	}
	return err
}

// query is [Doctor.query] for a function with a result.
func query[T any](ctx context.Context, d *Doctor, question func(context.Context) (T, error)) (answer T, err error) {
	err = d.query(ctx, func(ctx context.Context) (err error) {
		answer, err = question(ctx)
		return err
	})
	return answer, err
}

// inbox is the subject of a finding about receiving replies.
const inbox = "inbox"

// server checks that this user can receive replies, and reports the server.
func (d *Doctor) server(ctx context.Context) []Finding {
	err := d.query(ctx, func(ctx context.Context) error {
		sub, err := d.Conn.SubscribeSync(d.Conn.NewInbox())
		if err != nil {
			return err
		}
		// Fails only on a closed connection.
		defer func() { _ = sub.Unsubscribe() }()
		if err := d.Conn.FlushWithContext(ctx); err != nil {
			return err
		}
		if last := d.Conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			return last
		}
		return nil
	})
	if err != nil {
		return []Finding{answer(inbox, "", err)}
	}
	return []Finding{answer("server", fmt.Sprintf("%s %s, version %s",
		d.Conn.ConnectedServerName(), natsconn.Redact(d.Conn.ConnectedUrl()), d.Conn.ConnectedServerVersion()), nil)}
}

// CheckSync is [durability.CheckServers], except that an embedded server has
// checked that before.
func CheckSync(ctx context.Context, conn *nats.Conn) error {
	if conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	return durability.CheckServers(ctx, conn)
}

// Sync is the subject of a finding about syncing.
const Sync = "sync"

// sync checks that the servers sync every write.
func (d *Doctor) sync(ctx context.Context) []Finding {
	err := d.query(ctx, func(ctx context.Context) error { return CheckSync(ctx, d.Conn) })
	if denied := new(natsconn.DeniedError); errors.As(err, &denied) {
		err = fmt.Errorf("%w: %w", durability.ErrSyncUnknown, err)
	}
	if d.AllowUnsynced && (errors.Is(err, durability.ErrSyncUnknown) || errors.Is(err, durability.ErrNoSync)) {
		return []Finding{answer(Sync, err.Error()+", as --allow-unsynced accepts", nil)}
	}
	return []Finding{answer(Sync, "every write is synced before it is acknowledged", err)}
}

// payload checks the server's limit for messages.
func (d *Doctor) payload(context.Context) []Finding {
	return []Finding{ofPayload("this connection", d.Conn.MaxPayload())}
}

// rights checks the user's rights, as the server reports them.
func (d *Doctor) rights(ctx context.Context) []Finding {
	if d.Domain != "" {
		return []Finding{{Severity: Warning, What: "rights", Text: "not checked in another JetStream domain"}}
	}
	var err error
	d.allowed, err = query(ctx, d, func(ctx context.Context) (Permissions, error) { return RequestPermissions(ctx, d.Conn) })
	if err != nil {
		return []Finding{answer("rights", "", fmt.Errorf("%w (%s): %w", errRights, rights.AskPermissions, err))}
	}
	need := rights.Join(d.Role.Needs(d.Prefix), rights.Subscribe(d.Conn.NewInbox()))
	return []Finding{answer("rights", fmt.Sprintf("complete for the role %s", d.Role), d.allowed.Check(need))}
}

// resources checks the role's streams and buckets.
func (d *Doctor) resources(ctx context.Context) (all []Finding) {
	needs := d.Role.Needs(d.Prefix)
	if d.Role.is(rights.Admin) && d.snowflakeOnly(ctx) {
		needs = Role(rights.Snowflake).Needs(d.Prefix)
	}
	missing := make(map[string][]string) // trouble with copies → its resources
	for _, r := range d.Resources {
		if !needs.Includes(r.InfoSubject()) {
			continue
		}
		found, err := query(ctx, d, func(ctx context.Context) (kv.Found, error) { return r.Look(ctx, d.JetStream) })
		if err == nil && found.Difference != "" {
			err = fmt.Errorf("%w: %s", ErrDifferent, found.Difference)
		}
		all = append(all, answer(r.String(), "as it should be", err))
		if found.Copies != "" {
			missing[found.Copies] = append(missing[found.Copies], r.String())
		}
	}
	for _, text := range slices.Sorted(maps.Keys(missing)) {
		all = append(all, answer("copies", "", fmt.Errorf("%w: %s: %s", ErrCopies, text, strings.Join(missing[text], ", "))))
	}
	return all
}

// snowflakeOnly reports whether only snowflake IDs were ever issued: there are
// a layout, no store, and no load stream. Without an answer it is false.
func (d *Doctor) snowflakeOnly(ctx context.Context) bool {
	layout, err := query(ctx, d, func(ctx context.Context) (string, error) {
		return lease.InstalledLayout(ctx, d.JetStream, d.Prefix)
	})
	if err != nil || layout == "" || d.hasStore(ctx) {
		return false
	}
	err = d.query(ctx, func(ctx context.Context) error {
		_, err := d.JetStream.Stream(ctx, loadmsg.StreamName(d.Prefix))
		return err
	})
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

// hasStore reports whether a loader has agreed on a store. Without an answer it
// is true.
func (d *Doctor) hasStore(ctx context.Context) bool {
	store, err := d.agreed(ctx, agreement.StoreKey)
	return err != nil || store != ""
}

// agreed returns an agreed value, empty if there is none yet.
func (d *Doctor) agreed(ctx context.Context, key string) (string, error) {
	return query(ctx, d, func(ctx context.Context) (string, error) {
		value, _, err := agreement.Lookup(ctx, d.JetStream, d.Prefix, key)
		return value, err
	})
}

// enrichments checks the targets of the enrichments that the user may look at.
func (d *Doctor) enrichments(ctx context.Context) (all []Finding) {
	if d.Domain != "" || d.allowed.Check(enrich.ListRights(d.Prefix)) != nil {
		return nil
	}
	// An unreadable record keeps no other from being checked; status names it.
	standings, _ := query(ctx, d, func(ctx context.Context) ([]enrich.Standing, error) {
		return enrich.List(ctx, d.JetStream, d.Prefix)
	})
	for _, s := range standings {
		if d.allowed.Check(rights.Publish(rights.StreamInfo(s.Target))) != nil {
			continue
		}
		target, err := query(ctx, d, func(ctx context.Context) (jetstream.Stream, error) { return d.JetStream.Stream(ctx, s.Target) })
		if err == nil {
			err = s.CheckTarget(target.CachedInfo().Config)
		}
		all = append(all, answer("enrichment "+s.Source+" to "+s.Target, "the target is as it should be", err))
	}
	return all
}

// raise reports a raise of all tags that has not ended. An unreadable register
// has been reported before.
func (d *Doctor) raise(ctx context.Context) []Finding {
	if stream := kv.StreamName(register.BucketName(d.Prefix)); !d.Role.Needs(d.Prefix).Includes(rights.StreamInfo(stream)) {
		return nil
	}
	state, err := query(ctx, d, func(ctx context.Context) (register.Summary, error) {
		return register.Look(ctx, d.JetStream, d.Prefix)
	})
	if err != nil || state.Marked == 0 {
		return nil
	}
	return []Finding{{Severity: Error, What: "raise", Text: "all tags are being raised, or that was interrupted, and nothing is granted until it ends; unless it still runs: " + raiseAll}}
}

// nearlyFull is the share of an account's storage that is worth a warning.
const nearlyFull = 0.8

// storage checks that the account has enough storage of its own. Only
// administrators may request that. An embedded server serves only this
// installation.
func (d *Doctor) storage(ctx context.Context) []Finding {
	if !d.Role.is(rights.Admin) || d.Conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	account, err := query(ctx, d, d.JetStream.AccountInfo)
	if err != nil {
		return []Finding{answer("storage", "", err)}
	}
	const mb = 1 << 20
	used, limit := account.Store, account.Limits.MaxStore
	state := fmt.Sprintf("%d of the account's %d MB used", used/mb, limit/mb)
	switch {
	case limit < 0:
		err = ErrShared
	case float64(used) > nearlyFull*float64(limit):
		err = fmt.Errorf("%w: %s", ErrNearlyFull, state)
	}
	all := []Finding{answer("storage", state, err)}
	if limit > 0 {
		all = append(all, d.room(ctx)...)
	}
	return all
}

// tagBytes is about what a tag takes in the register.
const tagBytes = 250

// room compares the room for new tags in the register with the tags that
// templates may make. A missing register has been reported before.
func (d *Doctor) room(ctx context.Context) []Finding {
	const what = "room for tags"
	stream, err := query(ctx, d, func(ctx context.Context) (jetstream.Stream, error) {
		return d.JetStream.Stream(ctx, kv.StreamName(register.BucketName(d.Prefix)))
	})
	if err != nil {
		return nil
	}
	list, err := query(ctx, d, func(ctx context.Context) (templates.List, error) {
		return templates.Read(ctx, d.JetStream, d.Prefix)
	})
	if err != nil {
		return nil
	}
	info := stream.CachedInfo()
	if info.Config.MaxBytes <= 0 {
		return []Finding{answer(what, "", fmt.Errorf("%w: the register has no limit of its own, so tags could take the room of leases", ErrDifferent))}
	}
	room := int64(info.State.Msgs) + max(info.Config.MaxBytes/10*9-int64(info.State.Bytes), 0)/tagBytes
	allowed := int64(0)
	for _, t := range list {
		if t.MaxTags == 0 {
			return []Finding{answer(what, "", fmt.Errorf("%w: for about %d in all, but template %s has no limit", ErrFills, room, t.Pattern))}
		}
		allowed = store.Beyond(allowed, t.MaxTags)
	}
	if allowed > room {
		err = fmt.Errorf("%w: for about %d in all, but templates allow %d", ErrFills, room, allowed)
	}
	return []Finding{answer(what, fmt.Sprintf("for about %d in all", room), err)}
}

// clock compares this machine's clock with the server's, which comes with a
// bucket. A missing bucket has been reported before.
func (d *Doctor) clock(ctx context.Context) []Finding {
	before := time.Now()
	agreed, err := query(ctx, d, func(ctx context.Context) (*agreement.Agreement, error) {
		return agreement.Open(ctx, d.JetStream, d.Prefix)
	})
	if err != nil {
		return nil
	}
	off := (time.Since(before)/2 + before.Sub(agreed.ServerTime())).Round(time.Millisecond)
	if d.MaxClockSkew > 0 && off.Abs() > d.MaxClockSkew {
		err = fmt.Errorf("%w: %v ahead of the server's, at most %v allowed", ErrClockOff, off, d.MaxClockSkew)
	}
	return []Finding{answer("clock", fmt.Sprintf("%v ahead of the server's", off), err)}
}

// layout compares the workers' layout with the installation's.
func (d *Doctor) layout(ctx context.Context) []Finding {
	installed, err := query(ctx, d, func(ctx context.Context) (string, error) {
		return lease.InstalledLayout(ctx, d.JetStream, d.Prefix)
	})
	d.installed, _ = snowflake.ParseLayout(installed)
	switch given := d.Layout.String(); {
	case errors.Is(err, jetstream.ErrBucketNotFound), d.Layout.IsZero(), !d.Role.answers():
		return nil
	case err == nil && installed == "":
		installed = "none yet; the first worker sets it"
	case err == nil && installed != given:
		err = fmt.Errorf("%w: %.100s, expected %s", ErrOtherLayout, installed, given)
	}
	return []Finding{answer("layout", installed, err)}
}

// store checks that the store is the installation's and usable, that it keeps
// acknowledged writes in a crash, and that templates can create tags in it.
func (d *Doctor) store(ctx context.Context) (all []Finding) {
	if d.Store.Kind() == "" || !d.Role.counts() {
		return nil
	}
	segments, err := query(ctx, d, func(ctx context.Context) (*backend.Store, error) {
		agreed, err := agreement.Open(ctx, d.JetStream, d.Prefix)
		if err == nil {
			err = agreed.CheckStore(ctx, d.Store.Name())
		}
		if err != nil {
			return nil, err
		}
		return d.Store.Open(ctx, register.Config{JetStream: d.JetStream, Prefix: d.Prefix})
	})
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil // reported as a resource
	}
	if segments != nil {
		defer func() { _ = segments.Close() }() // nothing was written
	}
	if err == nil && segments.Database != nil {
		err = d.query(ctx, segments.Database.Check)
	}
	all = []Finding{answer("store", d.Store.Name()+" is usable", err)}
	if err != nil || segments.Database == nil {
		return all
	}
	err = d.query(ctx, segments.Database.Durability)
	all = append(all, answer("store durability", "every commit is synced before it is acknowledged", err))
	list, err := query(ctx, d, func(ctx context.Context) (templates.List, error) {
		return templates.Read(ctx, d.JetStream, d.Prefix)
	})
	if err == nil && len(list) > 0 {
		err = d.query(ctx, segments.Database.CheckFirst)
	}
	if err != nil || len(list) > 0 {
		all = append(all, answer("templates", fmt.Sprintf("%d, and the store can hold their tags", len(list)), err))
	}
	return all
}

// processes reports the installation's running processes, their troubles and
// forecasts, if the user may list them.
func (d *Doctor) processes(ctx context.Context) []Finding {
	if d.SkipProcesses {
		return nil
	}
	all := ofLayout(time.Now(), d.installed)
	if d.allowed.Check(worker.AskReportsRights()) != nil {
		return all
	}
	reports, err := query(ctx, d, func(ctx context.Context) ([]worker.Report, error) {
		return worker.AskReports(ctx, d.Conn, d.Prefix, nil)
	})
	switch {
	case errors.Is(err, worker.ErrNoReports):
		return append(all, answer("processes", "", err))
	case err != nil:
		return all // a missing right
	}
	if value, err := d.agreed(ctx, agreement.InstallationKey); err == nil && value != "" {
		id, _, _ := strings.Cut(value, " ")
		reports = slices.DeleteFunc(reports, func(r worker.Report) bool { return r.Stats.Installation != id })
	}
	return slices.Concat(all, ofProcesses(time.Now(), reports, d.hasStore(ctx)), ofPayloads(d.Conn.MaxPayload(), reports), ofTags(time.Now(), reports))
}

// requests sends a caller's requests: for its tag, or for any tag and for
// snowflake IDs.
func (d *Doctor) requests(ctx context.Context) []Finding {
	client := messages.NewClient(d.Conn, d.Prefix)
	segment := func(ctx context.Context) ([]messages.Range, error) {
		return client.NextN(ctx, cmp.Or(d.Tag, "doctor"), tooMany)
	}
	if d.Tag != "" {
		return []Finding{d.request(ctx, "requests for tag "+d.Tag, segment)}
	}
	snowflake := func(ctx context.Context) ([]messages.Range, error) { return client.SnowflakeN(ctx, tooMany) }
	return []Finding{d.request(ctx, "requests for tags", segment), d.request(ctx, "requests for snowflake IDs", snowflake)}
}

const (
	// tooMany is a count above every limit. Only a worker can refuse the
	// request, and no ID is lost.
	tooMany = math.MaxInt64

	// requestTimeout bounds a request: longer than a restart takes.
	requestTimeout = 2 * time.Second
)

// atOnce matches the largest batch in a worker's refusal.
var atOnce = regexp.MustCompile(`1 to \d+`)

// request sends a request that a worker refuses.
func (d *Doctor) request(ctx context.Context, what string, send func(context.Context) ([]messages.Range, error)) Finding {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := query(ctx, d, send)
	switch {
	case errors.Is(err, messages.ErrMalformed):
		good := "a worker answers"
		if found := atOnce.FindString(err.Error()); found != "" {
			good += " requests for " + found + " IDs"
		}
		return answer(what, good, nil)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout):
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return answer(what, "", err)
}
