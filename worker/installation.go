package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/metric"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/agreement"
)

// installationWatch makes the process visible to others, and detects another
// installation on the same subjects.
//
// An installation is a set of buckets, and buckets belong to one JetStream.
// Subjects may reach further: a leaf node link carries them from one JetStream
// domain to the next. Two installations linked in this way would answer each
// other's callers, and both count from 1. So one of them must not answer,
// unless their IDs differ anyway; see [ProcessIdentity.conflict].
//
// Each process reads the metadata of all processes when it starts, and every 30
// seconds. The younger installation stands by; at equal ages, the installation
// with the greater ID. All compare the same two values, and no clocks, so two
// installations never both stand by.
//
//   - A process does not start if a conflicting installation serves, or is
//     older. A younger installation that serves blocks it too: only an operator
//     may displace it.
//   - A serving process leaves the queue groups when an older installation
//     serves. It comes back after several looks in a row that contained its own
//     answer and no older installation.
//
// A link that comes up later is detected within 40 seconds. Until then both
// serve. A copy of an installation, including its buckets, has the same ID and
// is not detected.
type installationWatch struct {
	cfg    *Config
	timing timing
	self   ProcessIdentity
	// makes the process visible
	register func() (micro.Service, error)
	// leaves all queue groups to another installation, or rejoins them
	leave func(standsBy bool)

	background *goroutines.Group
	service    micro.Service // between Start and Stop

	serving atomic.Bool
	left    atomic.Pointer[ForeignError]       // why the process stands by
	pinned  atomic.Pointer[agreement.PinError] // why NATS is not that of the pinned installation

	joining  sync.Mutex // held while the process stands by or comes back
	standsBy bool
	// processes of conflicting installations, over all looks
	met atomic.Int64
}

const (
	// factor by which a process that stands by looks more often
	standbyLooks     = 6
	looksUntilReturn = 4
	lookAgain        = 250 * time.Millisecond // after a look that failed
)

// Start registers the service of the process, and then looks for conflicting
// installations. The error is a [*ForeignError] if the process must not serve
// next to another installation.
func (w *installationWatch) Start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timing.start)
	defer cancel()
	if w.service, err = w.register(); err != nil {
		return err
	}
	foreign, err := w.look(ctx)
	for ; err != nil; foreign, err = w.look(ctx) {
		if pause.For(ctx, lookAgain); ctx.Err() != nil {
			return errors.Join(err, ctx.Err(), w.Stop())
		}
	}
	for _, f := range foreign {
		if f.serves || f.Other.olderThan(f.Own) {
			return errors.Join(&f.ForeignError, w.Stop())
		}
	}
	w.serving.Store(true)
	return nil
}

// Stop removes the service.
func (w *installationWatch) Stop() error { return unlessClosed(w.service.Stop()) }

// begin starts the looks for other installations. All parts have started.
func (w *installationWatch) begin() {
	w.background.Start(w.run)
	if w.cfg.Installation != "" {
		w.background.Start(w.checkPin)
	}
}

// end ends the looks, before any part stops.
func (w *installationWatch) end() {
	w.serving.Store(false)
	w.background.Stop()
}

// run looks for other installations until ctx ends.
func (w *installationWatch) run(ctx context.Context) {
	missed := 0 // looks without an older installation
	logged := ""
	for {
		interval := w.timing.look
		if w.left.Load() != nil {
			interval /= standbyLooks
		}
		// The jitter keeps processes apart that started together.
		pause.For(ctx, interval*3/4+rand.N(interval/2))
		foreign, err := w.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // no evidence
		}
		missed++
		for _, f := range foreign {
			switch {
			case f.serves && f.Other.olderThan(f.Own):
				missed = 0
				w.standBy(&f.ForeignError)
			case f.serves && logged != f.Other.Installation:
				logged = f.Other.Installation
				w.cfg.Log.Error("younger installation on the same subjects", zap.Error(&f.ForeignError))
			}
		}
		if missed >= looksUntilReturn {
			w.comeBack()
		}
	}
}

// standBy leaves the queue groups for an older installation.
func (w *installationWatch) standBy(why *ForeignError) {
	if w.left.Swap(why) == nil {
		w.cfg.Log.Error("standing by for an older installation", zap.Error(why))
		w.join()
	}
}

// comeBack rejoins the queue groups.
func (w *installationWatch) comeBack() {
	if left := w.left.Swap(nil); left != nil {
		w.cfg.Log.Warn("older installation gone, serving again", zap.String("other", left.Other.Installation))
		w.join()
	}
}

// join leaves or rejoins the queue groups, as the reasons to stand by require.
func (w *installationWatch) join() {
	w.joining.Lock()
	defer w.joining.Unlock()
	pinned := w.pinned.Load()
	standsBy := w.left.Load() != nil || pinned != nil && pinned.Found != ""
	if standsBy == w.standsBy {
		return
	}
	w.standsBy = standsBy
	if standsBy {
		w.serving.Store(false)
	}
	w.leave(standsBy)
	if !standsBy {
		w.serving.Store(true)
	}
}

// pinPoll is the interval between looks for a reconnect.
const pinPoll = time.Second

// checkPin checks after each reconnect that NATS still has the pinned
// installation. In another one the process stands by: its buffers are not of
// that installation. Without any, it serves from its buffers.
func (w *installationWatch) checkPin(ctx context.Context) {
	cfg := w.cfg
	for checked := uint64(0); ; pause.For(ctx, pinPoll) {
		if ctx.Err() != nil {
			return
		}
		reconnects := cfg.Control.Stats().Reconnects
		if reconnects == checked && w.pinned.Load() == nil {
			continue
		}
		look, cancel := context.WithTimeout(ctx, w.timing.start)
		err := agreement.CheckIdentity(look, cfg.JetStream, cfg.Prefix, cfg.Installation, w.self.Created)
		cancel()
		var wrong *agreement.PinError
		if err != nil && !errors.As(err, &wrong) {
			continue // unknown
		}
		checked = reconnects
		before := w.pinned.Swap(wrong)
		switch {
		case wrong != nil && (before == nil || before.Found != wrong.Found):
			cfg.Log.Error("not the pinned installation", zap.Error(wrong))
		case wrong == nil && before != nil:
			cfg.Log.Warn("pinned installation back", zap.String("installation", cfg.Installation))
		default:
			continue
		}
		w.join()
	}
}

// lost returns why there is no installation any more, or nil.
func (w *installationWatch) lost() error {
	if pinned := w.pinned.Load(); pinned != nil {
		return pinned
	}
	return nil
}

// foreignProcess is a process of a conflicting installation.
type foreignProcess struct {
	ForeignError
	serves bool
}

// look returns the processes of conflicting installations. A look without the
// process's own answer is an error: it proves nothing.
func (w *installationWatch) look(ctx context.Context) (foreign []foreignProcess, err error) {
	conn, prefix, self := w.cfg.Control, w.cfg.Prefix, w.self
	all, err := listProcesses(ctx, conn, prefix, w.quiet())
	if err != nil && !errors.Is(err, ErrCut) { // with so many, those of the list have to do
		return nil, err
	}
	own, instances := false, []string(nil)
	for _, p := range all {
		own = own || p.Instance == self.Instance
		if !self.sameInstallation(p) && self.conflict(p) != noConflict {
			foreign = append(foreign, foreignProcess{ForeignError{prefix, self, p}, true})
			instances = append(instances, p.Instance)
		}
	}
	if !own {
		return nil, errors.New("cannot detect other installations: own answer missing")
	}
	if len(foreign) == 0 {
		return nil, nil
	}
	w.met.Add(int64(len(foreign)))
	reports, err := AskReports(ctx, conn, prefix, instances)
	for _, r := range reports {
		if i := slices.Index(instances, r.Instance); i >= 0 {
			foreign[i].serves = r.Serving
		}
	}
	if errors.Is(err, ErrCut) {
		err = nil
	}
	return foreign, err
}

// quiet is the time without another answer that ends a look. None is awaited if
// only this process is subscribed: one that subscribes later looks later, and
// finds this process.
func (w *installationWatch) quiet() time.Duration {
	if interest := w.cfg.Interest; interest != nil && interest(askSubject(micro.PingVerb)) == 1 {
		return 0
	}
	return w.timing.quiet
}

// ready returns why the process does not serve, except for reasons of the queue
// groups.
func (w *installationWatch) ready() error {
	if left := w.left.Load(); left != nil {
		return fmt.Errorf("not in the queue groups: %w", left)
	}
	if pinned := w.pinned.Load(); pinned != nil && pinned.Found != "" {
		return fmt.Errorf("not in the queue groups: %w", pinned)
	}
	if !w.serving.Load() {
		return errors.New("starting")
	}
	return nil
}

var (
	conflictGauge = metric.Declare("installation_conflict", "1 if the process stands by for another installation, else 0.")
	foreignMet    = metric.Declare("foreign_processes_met_total", "Processes of conflicting installations found on the same subjects.")
)

func (w *installationWatch) collect(to metric.Sink) {
	to.BoolGauge(conflictGauge, w.left.Load() != nil)
	to.Counter(foreignMet, w.met.Load())
}

// conflict is the reason why processes of two installations must not serve on
// the same subjects.
type conflict int

const (
	noConflict         conflict = iota
	segmentConflict             // both count from 1
	layoutConflict              // an ID of one layout may be one of the other
	datacenterConflict          // both lease the same worker IDs
	unknownConflict             // no evidence that their IDs differ
)

// conflict returns why processes of two different installations conflict.
// Segments have one register, so they belong to one installation. Snowflake IDs
// of one layout and different datacenters are different.
func (p ProcessIdentity) conflict(other ProcessIdentity) conflict {
	switch {
	case p.Role != RoleSnowflake && other.Role != RoleSnowflake:
		return segmentConflict
	case !p.Role.Answers() || !other.Role.Answers():
		return noConflict
	case p.Layout.IsZero() || other.Layout.IsZero():
		return unknownConflict
	case p.Layout != other.Layout:
		return layoutConflict
	case p.Datacenter == other.Datacenter:
		return datacenterConflict
	}
	return noConflict
}

// ErrForeign is wrapped by every [ForeignError].
var ErrForeign = problem.New(problem.Neighbours, "another installation answers on the same subjects")

// ForeignError reports a process of a conflicting installation.
type ForeignError struct {
	Prefix     messages.Prefix
	Own, Other ProcessIdentity
}

func (e *ForeignError) Error() string {
	other := "process " + e.Other.Instance
	if e.Other.Host != "" {
		other += " on host " + e.Other.Host
	}
	return fmt.Sprintf("%s, %s.>: %s, %s; this process belongs to %s",
		e.what(), e.Prefix, e.Other.installation(), other, e.Own.installation())
}

// what states the conflict.
func (e *ForeignError) what() string {
	switch e.Own.conflict(e.Other) {
	case datacenterConflict:
		return fmt.Sprintf("datacenter %d is taken by another installation on the same subjects", e.Own.Datacenter)
	case layoutConflict:
		return fmt.Sprintf("another installation on the same subjects has the layout %s, this process %s", e.Other.Layout, e.Own.Layout)
	case unknownConflict:
		return "another installation on the same subjects reports no valid datacenter"
	}
	return ErrForeign.Error()
}

// Problem is part of [problem.Problem].
func (e *ForeignError) Problem() (problem.Kind, []any) {
	switch e.Own.conflict(e.Other) {
	case datacenterConflict:
		return problem.DatacenterTaken, nil
	case layoutConflict:
		return problem.RegionLayout, nil
	}
	return problem.Neighbours, nil
}

// Unwrap makes it an [ErrForeign].
func (e *ForeignError) Unwrap() error { return ErrForeign }

// sameInstallation reports whether two processes belong to one installation. A
// name that an operator chose may be that of another installation too, or of a lost
// installation that was made again.
func (p ProcessIdentity) sameInstallation(other ProcessIdentity) bool {
	return p.Installation == other.Installation && p.Created.Equal(other.Created)
}

// olderThan orders processes by the age of their installations. It is a total
// order of installations.
func (p ProcessIdentity) olderThan(other ProcessIdentity) bool {
	if c := p.Created.Compare(other.Created); c != 0 {
		return c < 0
	}
	return p.Installation < other.Installation
}

func (p ProcessIdentity) installation() string {
	return fmt.Sprintf("%s (since %s)", p.Installation, p.Created.UTC().Format(time.RFC3339))
}
