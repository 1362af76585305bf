// Package doctor checks that a process of a role has what it needs before it is started: an
// inbox, servers that sync, rights, streams and buckets, a clock that is right, the layout
// and the store of the installation; and which processes run already. It changes nothing.
//
// It asks one question after the other and reports a [Finding] for each. What a finding
// means for flags and commands is for the caller to say.
package doctor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// Finding is the answer to one question.
type Finding struct {
	What string // what was looked at
	Err  error  // what is wrong; nil if nothing is
	Good string // what is right

	// Warning says that Err may be all right.
	Warning bool
}

// Doctor says what to look at. All fields are required unless they say otherwise.
type Doctor struct {
	Conn      *nats.Conn // its error handler is replaced
	JetStream jetstream.JetStream
	Prefix    messages.Prefix

	Role      string        // for people
	Needs     rights.Rights // of that role, in the account's own JetStream domain
	Domain    string        // another JetStream domain; rights are not looked at then
	Resources []kv.Resource // of the installation; those that the role has no right to open are left out
	Server    string        // how the server is shown, without secrets

	// The rest is looked at only where it is set.

	// Trials are tried in place of asking what this user may do.
	Trials []Trial

	// Sync reports whether the servers sync every write. If AllowUnsynced is set, they need not.
	Sync          func(context.Context) error
	AllowUnsynced bool

	// Storage says that this user may ask how much its account may store.
	Storage bool

	MaxClockSkew time.Duration // how far the clock may be from the server's
	Layout       string        // of snowflake IDs, as workers are given it

	Store *Store

	Processes bool // those that run, and when their numbers run out

	allowed permissions // of the user, as far as the server tells

	// cancel ends the question under way.
	cancel atomic.Pointer[context.CancelCauseFunc]
}

// Store is the segment store.
type Store struct {
	Name string

	// Check reports whether it can be counted in.
	Check func(context.Context) error

	// CheckDurability, where it is set, reports whether the store keeps what it acknowledged,
	// whatever crashes. It is asked if the store can be counted in.
	CheckDurability func(context.Context) error

	// CheckFirst, where it is set, reports whether tags can be made in the store when they are first
	// asked for. It is asked if there are templates.
	CheckFirst func(context.Context) error
}

// ErrSick is that at least one finding has an error that is no warning.
var ErrSick = errors.New("something is wrong")

// askTimeout bounds one question.
const askTimeout = 5 * time.Second

// Examine asks all questions and reports what it finds. It returns [ErrSick], or nil if all
// is well. It must be called once.
func (d *Doctor) Examine(ctx context.Context, report func(Finding)) error {
	sick := false
	find := func(f Finding) {
		sick = sick || f.Err != nil && !f.Warning
		report(f)
	}
	d.Conn.SetErrorHandler(d.refused)
	if err := d.checkInbox(); err != nil {
		report(Finding{What: "inbox", Err: err})
		return ErrSick // no question would be answered
	}
	find(Finding{What: "server", Good: d.Server})
	d.examineSync(ctx, find)
	if d.Trials == nil {
		d.examineRights(ctx, find)
	}
	d.examineTrials(ctx, find)
	d.examineResources(ctx, find)
	d.examineStorage(ctx, find)
	d.examineClock(ctx, find)
	d.examineStore(ctx, find)
	d.examineProcesses(ctx, find)
	if sick {
		return ErrSick
	}
	return nil
}

// refused ends the question under way: one that the server refuses is never answered.
func (d *Doctor) refused(_ *nats.Conn, _ *nats.Subscription, err error) {
	if cancel := d.cancel.Load(); cancel != nil && errors.Is(err, nats.ErrPermissionViolation) {
		(*cancel)(err)
	}
}

// ask asks one question, within askTimeout.
func (d *Doctor) ask(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ctx, cancelCause := context.WithCancelCause(ctx)
	defer cancelCause(nil)
	d.cancel.Store(&cancelCause)
	defer d.cancel.Store(nil)
	err := question(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, nats.ErrPermissionViolation) {
		return cause
	}
	return err
}

// checkInbox reports whether this user can receive answers.
func (d *Doctor) checkInbox() error {
	before := d.Conn.LastError() // of an earlier question
	sub, err := d.Conn.SubscribeSync(d.Conn.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails on a closed connection only
	if err := d.Conn.FlushTimeout(askTimeout); err != nil {
		return err
	}
	if last := d.Conn.LastError(); !errors.Is(before, last) && errors.Is(last, nats.ErrPermissionViolation) {
		return natsconn.Denied(last, nil)
	}
	return nil
}

// isMissing reports whether a resource does not exist.
func isMissing(err error) bool {
	for _, missing := range []error{jetstream.ErrStreamNotFound, jetstream.ErrBucketNotFound, jetstream.ErrConsumerNotFound} {
		if errors.Is(err, missing) {
			return true
		}
	}
	return false
}

// ErrOtherLayout is wrapped by the finding that the installation has another layout than the
// one that workers are given.
var ErrOtherLayout = problem.New(problem.OtherLayout, "the installation has another layout")

// ErrClockOff is wrapped by the finding that the clock differs too much from the server's.
var ErrClockOff = errors.New("the clock is off")

// ErrShared is wrapped by the warning that the account's storage is not its own.
var ErrShared = problem.New(problem.StorageFull, "the account may store as much as the server has room for, and so may others: one that fills the server keeps IDs from being counted")

// ErrNearlyFull is wrapped by the warning that the account can hardly store more.
var ErrNearlyFull = problem.New(problem.StorageFull, "the account is nearly full, and nothing is counted when it is")

// ErrRunsOut is wrapped by the warning that numbers run out within a year.
var ErrRunsOut = problem.New(problem.RunsOut, "numbers run out")

// ErrCopies is wrapped by the warning that copies are missing on a cluster.
var ErrCopies = problem.New(problem.TooFewCopies, "too few copies")

// ErrDifferent is wrapped by the warning that a resource can be used, but is not as it would
// be provisioned.
var ErrDifferent = problem.New(problem.Different, "it is different")
