package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/loads"
)

// startTimeout is how long NATS and its JetStream may take for each stage of a start.
//
// It is a variable for tests, whose machines may be slow.
var startTimeout = 30 * time.Second

// withTimeout calls do with a context that lasts for startTimeout.
func withTimeout(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return do(ctx)
}

// Process is a running process of any role.
type Process struct {
	info    processInfo
	halves  []half // those of its role, in the order in which they start
	started time.Time

	stopping atomic.Bool
	stopOnce sync.Once
	stopErr  error
}

// half is the part of a process that does the work of one role: [answering] or [loading];
// or what both need: [neighbourhood], [reporter].
type half interface {
	// start returns when the half does its work. If it fails it leaves nothing behind.
	start(ctx context.Context) error

	// stop finishes what has begun, and returns when all that start started has ended.
	// It is called at most once, after a start that succeeded. The error is that of
	// telling NATS; the half has stopped all the same.
	stop() error

	ready() error // says why the half does not do all of its work, see [Process.Ready]
	collect(to sink)
	fillStats(s *Stats)
	fillReport(r *Report)
}

// Start starts a process and returns when it does its work: a worker has then joined the
// queue group. It fails if nothing moves for startTimeout, or when ctx ends, and
// then leaves nothing behind.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	var w *Process
	err := withTimeout(ctx, func(ctx context.Context) (err error) {
		w, err = Open(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := w.Start(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// Open makes a process that [Process.Start] is to be called of. It asks JetStream some questions,
// so it should get a context with a deadline: a request may never be answered.
func Open(ctx context.Context, cfg Config) (*Process, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.loads() && cfg.Store == nil {
		return nil, fmt.Errorf("%w: role %s needs a store", ErrConfig, cfg.Role)
	}
	w := &Process{started: time.Now()}
	var err error
	if w.info, err = w.prepare(ctx, cfg); err != nil {
		return nil, err
	}
	w.halves, err = makeHalves(ctx, w.info)
	w.halves = append(w.halves, newReporter(w.info, w.report))
	return w, err
}

// Start is the rest of [Start].
func (w *Process) Start(ctx context.Context) error {
	for i, h := range w.halves {
		if err := h.start(ctx); err != nil {
			return errors.Join(err, w.stopHalves(w.halves[:i]))
		}
	}
	return nil
}

// prepare makes sure that the installation is there, and that this process belongs to it.
func (w *Process) prepare(ctx context.Context, cfg Config) (processInfo, error) {
	p := processInfo{cfg: cfg, instance: nuid.Next(), js: cfg.JetStream, stats: w.stats, failed: make(chan error, 1)}
	var err error
	if p.js == nil {
		if p.js, err = jetstream.New(cfg.Control); err != nil {
			return p, err
		}
	}
	if err := Provision(ctx, p.js, cfg.Prefix, cfg.Replicas); err != nil {
		return p, err
	}
	if err = p.joinInstallation(ctx); err != nil {
		return p, err
	}
	p.cfg.Log = cfg.Log.With(zap.String("instance", p.instance))
	p.foreign = newForeignMessages(p.installation.ID, p.cfg.Log)
	return p, nil
}

// joinInstallation finds out which installation this is, and makes sure that it counts in the
// store that this process was given.
func (p *processInfo) joinInstallation(ctx context.Context) error {
	agreed, err := agreement.Open(ctx, p.js, p.cfg.Prefix)
	if err != nil {
		return err
	}
	if p.installation.ID, p.installation.Created, err = agreed.Installation(ctx); err != nil {
		return err
	}
	if !p.cfg.loads() {
		return nil
	}
	return agreed.ClaimStore(ctx, p.cfg.StoreName)
}

// makeHalves makes the halves that the role has. The loading half comes before the answering
// half, so that it starts first and stops last: parked requests wait for it. Before both it
// is made sure that no other installation is there.
func makeHalves(ctx context.Context, p processInfo) (halves []half, err error) {
	var members []groupMember
	own := func(loads.Event) bool { return false }
	if p.cfg.loads() {
		l := newLoading(p)
		own = l.loader.loadIfUp
		members = append(members, l)
	}
	if p.cfg.answers() {
		a, err := openAnswering(ctx, p, own)
		if err != nil {
			return nil, err
		}
		members = append(members, a)
	}
	halves = append(halves, newNeighbourhood(p, members))
	for _, m := range members {
		halves = append(halves, m)
	}
	return halves, nil
}

// Instance is the name of the process in load events and STATS.
func (w *Process) Instance() string { return w.info.instance }

// Installation is the ID of the installation that the process belongs to.
func (w *Process) Installation() string { return w.info.installation.ID }

// Report is what the process tells of itself, as [AskReports] returns it, with the busiest tags up to a
// number from 0 to 10,000.
func (w *Process) Report(tags int) Report { return w.report(min(max(tags, 0), maxReportTags)) }

// Stop leaves the queue group, answers every request that was delivered, and returns when
// all that Start started has ended. It takes about Config.Wait at most, plus the time that
// the store needs for what is under way, plus some seconds if the NATS server does not
// answer. An error says what NATS could not be told. A second call waits for the first and
// returns the same.
func (w *Process) Stop() error {
	w.stopOnce.Do(func() {
		w.stopping.Store(true)
		w.stopErr = w.stopHalves(w.halves)
	})
	return w.stopErr
}

// stopHalves stops halves, the last to start first.
func (w *Process) stopHalves(started []half) (err error) {
	for _, h := range slices.Backward(started) {
		err = errors.Join(err, h.stop())
	}
	return errors.Join(err, flush(w.info.cfg.Control), flush(w.info.cfg.Requests))
}

// Degraded says what is wrong although the process is ready, or returns nil: [Config.Trouble], a
// [*store.RegressionError] while its loader grants nothing, an [*UnansweredError], if no loader answers, or why the process is not in the queue group of
// snowflake requests although it has a worker ID. A worker lives on memory meanwhile, or
// answers other requests, and nothing is gained if its place is taken by another one.
func (w *Process) Degraded() error {
	if trouble := w.info.cfg.Trouble; trouble != nil && trouble() != nil {
		return trouble()
	}
	if c := w.info.cfg; c.loads() && c.Store.Stopped() != nil {
		return c.Store.Stopped()
	}
	for _, h := range w.halves {
		if a, ok := h.(*answering); ok {
			return a.degraded()
		}
	}
	return nil
}

// claimWithin is how long [Process.AwaitClaim] waits.
const claimWithin = 3 * time.Second

// AwaitClaim returns when the process has claimed a worker ID, or has found out that it cannot now; when ctx ends; and
// after three seconds. A claim takes one, in which other processes are asked. Requests for tags are answered meanwhile.
func (w *Process) AwaitClaim(ctx context.Context) {
	for _, h := range w.halves {
		if a, ok := h.(*answering); ok {
			select {
			case <-a.snowflakes.tried:
			case <-time.After(claimWithin):
			case <-ctx.Done():
			}
		}
	}
}

// Failed tells why the process cannot do what it was started for, should that come about: a
// [*lease.HeldError], if another process that is alive holds the worker ID that this one was given. It answers
// requests for tags until it is stopped, but whoever started it made a mistake and should be told.
func (w *Process) Failed() <-chan error { return w.info.failed }

// Supplied reports whether a loader has ever answered a load of this process.
func (w *Process) Supplied() bool {
	g := w.stats().Grants
	return g.Installed+g.Burnt+g.Below+g.Refused > 0
}

// Ready says why the process does not do all of its work right now, or returns nil. A store
// that is away is no reason, since workers live on memory. Neither is a missing worker ID,
// since only snowflake requests need one.
func (w *Process) Ready() error {
	if w.stopping.Load() {
		return errors.New("stopping")
	}
	if !w.info.cfg.Requests.IsConnected() || !w.info.cfg.Control.IsConnected() {
		return errors.New("not connected to NATS")
	}
	for _, h := range slices.Backward(w.halves) {
		if err := h.ready(); err != nil {
			return err
		}
	}
	return nil
}
