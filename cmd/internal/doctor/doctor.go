// Package doctor checks that a process of a role has what it needs: an inbox,
// servers that sync, rights, streams and buckets, a clock that is right, the
// layout and the store of the installation; and that processes run and do their
// work. It changes nothing.
//
// A doctor is a list of checks, in this file. Each asks one question, and returns
// what it finds. What an error means for flags and commands is for the caller to
// explain. In judge.go is what is wrong with processes, for status, too; in
// permissions.go what a user may do.
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
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// The findings that a caller may want to explain.
var (
	// ErrOtherLayout is that the installation has another layout than workers are given.
	ErrOtherLayout = problem.New(problem.OtherLayout, "the installation has another layout")

	// ErrClockOff is that the clock differs too much from the server's.
	ErrClockOff = errors.New("the clock is off")

	// ErrNobody is that a request for IDs was not answered.
	ErrNobody = problem.New(problem.NobodyAnswers, "no worker answers")

	// ErrShared is the warning that the account's storage is not its own.
	ErrShared = problem.New(problem.StorageFull, "the account may store as much as the server has room for, and so may others: one that fills the server keeps IDs from being counted")

	// ErrNearlyFull is the warning that the account can hardly store more.
	ErrNearlyFull = problem.New(problem.StorageFull, "the account is nearly full, and nothing is counted when it is")

	// ErrRunsOut is the warning that numbers run out within a year.
	ErrRunsOut = problem.New(problem.RunsOut, "numbers run out")

	// ErrCopies is the warning that copies are missing on a cluster.
	ErrCopies = problem.New(problem.TooFewCopies, "too few copies")

	// ErrDifferent is the warning that a resource can be used, but is not as it would be
	// provisioned.
	ErrDifferent = problem.New(problem.Different, "it is different")
)

// errRights is the warning that the user's rights are not known.
var errRights = errors.New("the server does not tell what this user may")

// mayBeRight are the errors that are warnings.
var mayBeRight = []error{
	durability.ErrSyncUnknown, store.ErrSettingUnknown, worker.ErrNoReports,
	errRights, ErrShared, ErrNearlyFull, ErrRunsOut, ErrCopies, ErrDifferent,
}

// answer is what is wrong, or what is right if nothing is. It is a warning if all
// that is wrong may be right.
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

// Doctor says what to look at.
type Doctor struct {
	Conn      *nats.Conn // a new one; its error handler is replaced
	JetStream jetstream.JetStream
	Prefix    messages.Prefix
	Domain    string // another JetStream domain; rights are not looked at then

	Role      Role
	Tag       string          // the one that a caller asks for; any if empty
	Resources []kv.Resource   // of the installation; those that the role may not open are left out
	Store     backend.Backend // not looked at if it is zero

	AllowUnsynced bool             // servers need not sync every write
	MaxClockSkew  time.Duration    // how far the clock may be from the server's; any if 0
	Layout        snowflake.Layout // of snowflake IDs, as workers are given it; zero if that is not known
	SkipProcesses bool             // and when numbers run out

	Explain func(error) string // returns the text for an error; required

	allowed   Permissions      // of the user, as far as the server tells
	installed snowflake.Layout // zero if that is not known
}

// check asks one question, and returns what it finds.
type check func(context.Context) []Finding

// checks are those for the role, in order.
func (d *Doctor) checks() []check {
	switch {
	case d.Role.is(rights.Caller):
		return []check{d.server, d.requests}
	case d.Role.hasOwnStreams(): // its server is that of its streams, whose owner decides
		return []check{d.server, d.rights, d.resources}
	}
	return []check{d.server, d.sync, d.rights, d.resources, d.storage, d.clock, d.layout, d.store, d.processes}
}

// Examine reports what it finds.
func (d *Doctor) Examine(ctx context.Context, report func(Finding)) {
	for _, check := range d.checks() {
		for _, f := range check(ctx) {
			if f.err != nil {
				f.Text = d.Explain(f.err)
			}
			report(f)
			if f.What == inbox {
				return // no question would be answered
			}
		}
	}
}

// askTimeout bounds one question.
const askTimeout = 5 * time.Second

// ask asks one question. One that the server refuses is never answered: the error
// is a [*natsconn.DeniedError] at once.
func (d *Doctor) ask(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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

// ask is [Doctor.ask] for a question that has an answer.
func ask[T any](ctx context.Context, d *Doctor, question func(context.Context) (T, error)) (answer T, err error) {
	err = d.ask(ctx, func(ctx context.Context) (err error) {
		answer, err = question(ctx)
		return err
	})
	return answer, err
}

// inbox is what is looked at if something is wrong with receiving answers.
const inbox = "inbox"

// server asks which server it is, and whether this user can receive answers.
func (d *Doctor) server(ctx context.Context) []Finding {
	err := d.ask(ctx, func(ctx context.Context) error {
		sub, err := d.Conn.SubscribeSync(d.Conn.NewInbox())
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
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
// checked that itself.
func CheckSync(ctx context.Context, conn *nats.Conn) error {
	if conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	return durability.CheckServers(ctx, conn)
}

// sync asks whether the servers sync every write.
func (d *Doctor) sync(ctx context.Context) []Finding {
	err := d.ask(ctx, func(ctx context.Context) error { return CheckSync(ctx, d.Conn) })
	if denied := new(natsconn.DeniedError); errors.As(err, &denied) {
		err = fmt.Errorf("%w: %w", durability.ErrSyncUnknown, err)
	}
	if d.AllowUnsynced && (errors.Is(err, durability.ErrSyncUnknown) || errors.Is(err, durability.ErrNoSync)) {
		return []Finding{answer("sync", err.Error()+", which is allowed", nil)}
	}
	return []Finding{answer("sync", "every write is on disk before it is acknowledged", err)}
}

// rights asks the server what this user may do.
func (d *Doctor) rights(ctx context.Context) []Finding {
	if d.Domain != "" {
		return []Finding{{Severity: Warning, What: "rights", Text: "not looked at in another JetStream domain"}}
	}
	var err error
	d.allowed, err = ask(ctx, d, func(ctx context.Context) (Permissions, error) { return AskPermissions(ctx, d.Conn) })
	if err != nil {
		return []Finding{answer("rights", "", fmt.Errorf("%w (%s): %w", errRights, rights.AskPermissions, err))}
	}
	need := rights.Join(d.Role.needs(d.Prefix), rights.Subscribe(d.Conn.NewInbox()))
	return []Finding{answer("rights", fmt.Sprintf("the role %s has all that it needs", d.Role), d.allowed.Check(need))}
}

// resources looks at the streams and buckets that the role has to do with.
func (d *Doctor) resources(ctx context.Context) (all []Finding) {
	needs := d.Role.needs(d.Prefix)
	missing := make(map[string][]string) // what is wrong with copies → of which resources
	for _, r := range d.Resources {
		if !needs.Includes(r.InfoSubject()) {
			continue
		}
		found, err := ask(ctx, d, func(ctx context.Context) (kv.Found, error) { return r.Look(ctx, d.JetStream) })
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

// nearlyFull is the part of an account's storage from which on it is worth a warning.
const nearlyFull = 0.8

// storage looks at whether the account has storage of its own, and enough. Only
// administrators may ask. An embedded server is for this installation alone.
func (d *Doctor) storage(ctx context.Context) []Finding {
	if !d.Role.is(rights.Admin) || d.Conn.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	account, err := ask(ctx, d, d.JetStream.AccountInfo)
	if err != nil {
		return []Finding{answer("storage", "", err)}
	}
	const mb = 1 << 20
	used, limit := account.Store, account.Limits.MaxStore
	state := fmt.Sprintf("%d MB of the account's %d MB are used", used/mb, limit/mb)
	switch {
	case limit < 0:
		err = ErrShared
	case float64(used) > nearlyFull*float64(limit):
		err = fmt.Errorf("%w: %s", ErrNearlyFull, state)
	}
	return []Finding{answer("storage", state, err)}
}

// clock compares this machine's clock with the server's, which comes with a bucket:
// if there is none, that was reported.
func (d *Doctor) clock(ctx context.Context) []Finding {
	before := time.Now()
	agreed, err := ask(ctx, d, func(ctx context.Context) (*agreement.Agreement, error) {
		return agreement.Open(ctx, d.JetStream, d.Prefix)
	})
	if err != nil {
		return nil
	}
	off := (time.Since(before)/2 + before.Sub(agreed.ServerTime())).Round(time.Millisecond)
	if d.MaxClockSkew > 0 && off.Abs() > d.MaxClockSkew {
		err = fmt.Errorf("%w: %v ahead of the server's, allowed is %v", ErrClockOff, off, d.MaxClockSkew)
	}
	return []Finding{answer("clock", fmt.Sprintf("%v ahead of the server's", off), err)}
}

// layout compares the layout that workers are given with that of the installation.
func (d *Doctor) layout(ctx context.Context) []Finding {
	installed, err := ask(ctx, d, func(ctx context.Context) (string, error) {
		return lease.InstalledLayout(ctx, d.JetStream, d.Prefix)
	})
	d.installed, _ = snowflake.ParseLayout(installed)
	switch given := d.Layout.String(); {
	case errors.Is(err, jetstream.ErrBucketNotFound), d.Layout.IsZero(), !d.Role.answers():
		return nil
	case err == nil && installed == "":
		installed = "none yet, the first worker sets it"
	case err == nil && installed != given:
		err = fmt.Errorf("%w: %.100s, and workers are given %s", ErrOtherLayout, installed, given)
	}
	return []Finding{answer("layout", installed, err)}
}

// store asks whether the store is the installation's, and can be used; whether it
// keeps what it acknowledged, whatever crashes; and whether tags can be made in
// it, if there are templates.
func (d *Doctor) store(ctx context.Context) (all []Finding) {
	if d.Store.Kind() == "" || !d.Role.counts() {
		return nil
	}
	segments, err := ask(ctx, d, func(ctx context.Context) (*backend.Store, error) {
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
		return nil // it is a resource, and was reported
	}
	if segments != nil {
		defer func() { _ = segments.Close() }() // nothing was written
	}
	if err == nil && segments.Database != nil {
		err = d.ask(ctx, segments.Database.Check)
	}
	all = []Finding{answer("store", d.Store.Name()+" is as it should be", err)}
	if err != nil || segments.Database == nil {
		return all
	}
	err = d.ask(ctx, segments.Database.Durability)
	all = append(all, answer("store durability", "every commit is on disk before it is acknowledged", err))
	list, err := ask(ctx, d, func(ctx context.Context) (templates.List, error) {
		return templates.Read(ctx, d.JetStream, d.Prefix)
	})
	if err == nil && len(list) > 0 {
		err = d.ask(ctx, segments.Database.CheckFirst)
	}
	if err != nil || len(list) > 0 {
		all = append(all, answer("templates", fmt.Sprintf("%d, and their tags can be made in the store", len(list)), err))
	}
	return all
}

// processes reports which processes run, what is wrong with them, and which
// limits they come near to, if the user may list them.
func (d *Doctor) processes(ctx context.Context) []Finding {
	if d.SkipProcesses {
		return nil
	}
	all := ofLayout(time.Now(), d.installed)
	if d.allowed.Check(worker.AskReportsRights()) != nil {
		return all
	}
	reports, err := ask(ctx, d, func(ctx context.Context) ([]worker.Report, error) {
		return worker.AskReports(ctx, d.Conn, d.Prefix, nil)
	})
	switch {
	case errors.Is(err, worker.ErrNoReports):
		return append(all, answer("processes", "", err))
	case err != nil:
		return all // a right that is missing
	}
	return slices.Concat(all, ofProcesses(time.Now(), reports), ofTags(time.Now(), reports))
}

// requests sends requests for IDs, as a caller does: for those of its tag, or of
// any and for snowflake IDs.
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
	// tooMany IDs are more than there can be. A request for them is refused, and none is
	// lost, but only a worker that got it can refuse it.
	tooMany = math.MaxInt64

	// requestTimeout is how long a request may wait for a worker: longer than a restart takes.
	requestTimeout = 2 * time.Second
)

// atOnce finds in a worker's refusal how many IDs there are at once.
var atOnce = regexp.MustCompile(`1 to \d+`)

// request sends one request that is refused.
func (d *Doctor) request(ctx context.Context, what string, send func(context.Context) ([]messages.Range, error)) Finding {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := ask(ctx, d, send)
	switch {
	case errors.Is(err, messages.ErrMalformed):
		good := "a worker answers"
		if found := atOnce.FindString(err.Error()); found != "" {
			good += ", and gives " + found + " IDs at once"
		}
		return answer(what, good, nil)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout):
		err = fmt.Errorf("%w: %w", ErrNobody, err)
	}
	return answer(what, "", err)
}
