package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// daemon is a serving process with everything that it has opened.
type daemon struct {
	cfg      serverConfig
	at       natsDialer        // to cfg's server, or the embedded one
	embedded *embedded.NATS    // nil with the user's own server
	witness  *register.Witness // may be nil
	// Why the witness counts as none, or empty.
	unwitnessed string
	// Receives the error that ends an embedded server.
	gone       chan error
	callers    *api.Server // nil without --api
	conns      []*nats.Conn
	process    *worker.Process
	synced     *syncWatch
	metrics    *prometheus.Registry
	background *goroutines.Group
	opened     []func()    // closers, in the order of opening
	serving    atomic.Bool // all fields above are set, and a claim was tried
	stopping   atomic.Bool
}

// startTimeout bounds the opening of the store, and the demo.
const startTimeout = 30 * time.Second

func newDaemon(cfg serverConfig) *daemon {
	return &daemon{
		cfg: cfg, gone: make(chan error, 1), metrics: newRegistry(), background: goroutines.New(),
	}
}

// onClose registers a function for close.
func (d *daemon) onClose(f func()) { d.opened = append(d.opened, f) }

// close stops the background goroutines, and then runs the closers, latest
// first.
func (d *daemon) close() {
	d.background.Stop()
	for _, f := range slices.Backward(d.opened) {
		f()
	}
}

// start listens on the HTTP addresses, which report that the process is
// starting. Then it opens NATS, and starts the process.
func (d *daemon) start(ctx context.Context) (err error) {
	page := d.page()
	d.onClose(page.Close)
	stopHTTP, err := d.cfg.http.serveHTTP(ctx, d.metrics, d.state, page, d.cfg.log)
	if err != nil {
		return err
	}
	d.onClose(stopHTTP)
	if d.cfg.api != nil {
		if d.callers, err = api.Open(ctx, *d.cfg.api); err != nil {
			return fmt.Errorf("--api: %w", err)
		}
		d.onClose(d.callers.Stop)
	}
	if err := d.openNATS(ctx); err != nil {
		return err
	}
	err = d.startProcess(ctx)
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: no JetStream for this user's account on the server %s: it is disabled, --js-domain is wrong, or the server that has it cannot be reached", err, d.at)
	}
	if err != nil {
		return errors.Join(d.trouble(), err)
	}
	return nil
}

// trouble returns the error of an embedded server that cannot write, or nil.
func (d *daemon) trouble() error {
	if d.embedded == nil {
		return nil
	}
	return d.embedded.Trouble()
}

// openNATS starts the embedded server, unless the user has a server, and opens
// the witness.
func (d *daemon) openNATS(ctx context.Context) (err error) {
	at := d.cfg.nats
	if d.cfg.embedded != nil {
		if err := d.startEmbedded(ctx); err != nil {
			return err
		}
		at = natsFlags{Server: d.embedded.URL(), Prefix: d.cfg.worker.Prefix}
	} else if d.cfg.witness != "" {
		if d.witness, err = register.OpenWitness(d.cfg.witness); err != nil {
			return err
		}
		if d.witness.Fresh() {
			d.cfg.log.Warn("new witness has no evidence yet", zap.String("witness", d.cfg.witness))
		}
	}
	d.at, err = at.dialer(d.cfg.files)
	return err
}

func (d *daemon) startEmbedded(ctx context.Context) (err error) {
	d.embedded, err = embedded.Start(ctx, *d.cfg.embedded)
	if refused := new(embedded.RecoverError); errors.As(err, &refused) {
		refused.Flags = folderFlags(refused, d.cfg.worker.Prefix, d.cfg.source)
	}
	if err != nil {
		return err
	}
	d.onClose(d.embedded.Stop)
	d.witness = d.embedded.Witness()
	d.background.Start(func(ctx context.Context) {
		if err := d.embedded.Guard(ctx); err != nil {
			d.gone <- err
		}
	})
	return nil
}

// folderFlags returns the flags that select a data folder and the installation
// in it.
func folderFlags(refused *embedded.RecoverError, prefix messages.Prefix, source backend.Backend) string {
	flags := "--data " + shellWord(refused.Folder)
	if refused.Witness != embedded.WitnessOf(refused.Folder) {
		flags += " --witness " + shellWord(refused.Witness)
	}
	if prefix != messages.DefaultPrefix {
		flags += " --prefix " + string(prefix)
	}
	if source.Kind() != backend.JetStream {
		flags += " --store DSN" // the DSN may contain a password
	}
	return flags
}

// plain matches paths that need no quotes in a shell.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord quotes a path for a shell.
func shellWord(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// startProcess connects, and opens and starts the process.
func (d *daemon) startProcess(ctx context.Context) (err error) {
	cfg := d.cfg.worker
	cfg.Trouble = d.trouble
	if d.embedded != nil { // its JetStream is away only with this process
		cfg.Interest = d.embedded.Interest
	} else {
		cfg.Outage = newOutage
	}
	domain := d.at.JSDomain
	if domain == "" && d.at.Context != "" {
		domain = "*" // the context may set it
	}
	own := func(v rights.Violation) bool {
		need := rights.Join(health.Needs(d.cfg.examined.Role, cfg.Prefix), health.Needs(rights.Admin, cfg.Prefix)) // what is missing is created
		return natsconn.OwnAny(v) && natsconn.OwnOf(need, domain)(v)
	}
	if cfg.Requests, _, err = d.at.dialToStay(ctx, "idworker", natsconn.OwnSubscriptions, cfg.Log); err != nil {
		return err
	}
	d.onClose(cfg.Requests.Close)
	// No reconnect buffer: a write that was sent before the register regressed
	// must not arrive afterwards.
	if cfg.Control, cfg.JetStream, err = d.at.dialToStay(ctx, "idworker control", own, cfg.Log, nats.ReconnectBufSize(-1)); err != nil {
		return err
	}
	d.onClose(cfg.Control.Close)
	d.conns = []*nats.Conn{cfg.Requests, cfg.Control}
	d.synced = newSyncWatch(func(ctx context.Context) error { return health.CheckSync(ctx, cfg.Control) },
		func(ctx context.Context) error { return d.compareReplicas(ctx, cfg) }, d.cfg.allowUnsynced, cfg.Log)
	starting, explainRequests := natsconn.WhenDenied(ctx, natsconn.OwnSubscriptions, cfg.Requests)
	starting, explainControl := natsconn.WhenDenied(starting, own, cfg.Control)
	d.judgeWitness(starting, cfg)
	if d.embedded == nil { // else checked before it listened
		err = kv.WithRetry(starting, cfg.Log, func(ctx context.Context) error {
			if err := d.checkUnsynced(ctx, cfg); err != nil {
				return err
			}
			return d.cfg.admit(ctx, cfg.JetStream)
		})
	}
	if err == nil {
		d.process, err = d.openProcess(starting, cfg)
	}
	if err == nil {
		err = d.process.Start(starting)
	}
	explained := explainRequests(explainControl(err))
	if err == nil && explained != nil {
		explained = errors.Join(explained, d.process.Stop())
	}
	return explained
}

// compareReplicas compares the replicas of the installation's streams. An embedded
// server has one of each.
func (d *daemon) compareReplicas(ctx context.Context, cfg worker.Config) error {
	if cfg.Control.ConnectedServerName() == embedded.ServerName {
		return nil
	}
	return health.CompareReplicas(ctx, cfg.Control, cfg.Prefix)
}

// openProcess creates what is missing, opens the store if the role needs one,
// and makes the process.
func (d *daemon) openProcess(ctx context.Context, cfg worker.Config) (process *worker.Process, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = kv.WithRetry(ctx, cfg.Log, func(ctx context.Context) error {
		made, err := worker.Provision(ctx, cfg)
		cfg.Made = cfg.Made || made
		return err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.Role.Loads():
		if d.embedded == nil {
			if err := kv.WithRetry(ctx, cfg.Log, func(ctx context.Context) error { return d.openWitness(ctx, cfg) }); err != nil {
				return nil, err
			}
		}
		cfg.Witness = d.witnessStats()
		segments, err := d.openStore(ctx, cfg)
		if err != nil {
			return nil, err
		}
		d.onClose(func() { _ = segments.Close() }) // all replies have arrived
		cfg.Store, cfg.StoreName, cfg.Reservations = segments, d.cfg.source.Name(), d.cfg.source.Reservations()
	case d.witness != nil:
		if err := d.keepWitness(ctx, cfg); err != nil {
			return nil, err
		}
	}
	err = kv.WithRetry(ctx, cfg.Log, func(ctx context.Context) error {
		process, err = worker.New(ctx, cfg)
		return err
	})
	return process, err
}

// openStore opens the store of a loader: the register and the table. Close the
// store once nothing is in flight.
func (d *daemon) openStore(ctx context.Context, cfg worker.Config) (segments *backend.Segments, err error) {
	err = kv.WithRetry(ctx, cfg.Log, func(ctx context.Context) error {
		segments, err = d.cfg.source.Open(ctx, register.Config{JetStream: cfg.JetStream, Prefix: cfg.Prefix, Witness: d.witness, Stands: true, Log: cfg.Log})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := segments.Prepare(ctx, d.cfg.migrate, cfg.Log); err != nil {
		return nil, errors.Join(err, segments.Close())
	}
	if wrong := segments.Stopped(); wrong != nil { // stays up, to take part in the raise
		cfg.Log.Error("granting nothing until an administrator decides", zap.Error(wrong), zap.String("hint", hintFor(wrong)))
	}
	if segments.Database != nil {
		warnOfSettings(segments.Database.Durability(ctx), cfg.Log)
		if limit := segments.Database.Limited(); limit < math.MaxInt64 {
			cfg.Log.Warn("numbers of tags end early", zap.Int64("limit", limit), zap.String("hint", "make column max_id a BIGINT without bounds"))
		}
	}
	return segments, nil
}

// keepWitness updates the witness of an embedded server whose process does not
// load.
func (d *daemon) keepWitness(ctx context.Context, cfg worker.Config) error {
	if err := register.Create(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas); err != nil {
		return err
	}
	watched, err := register.Open(ctx, register.Config{
		JetStream: cfg.JetStream, Prefix: cfg.Prefix, Witness: d.witness, Beside: backend.Beside(cfg.Prefix), Stands: true, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	d.background.Start(func(ctx context.Context) { watched.Run(ctx, nil) })
	// The witness is at most a second behind.
	d.onClose(func() { _ = watched.Close() })
	return nil
}

// run serves until ctx ends, or the process fails: on its worker ID, or on the
// folder of the embedded server.
func (d *daemon) run(ctx context.Context, out output) error {
	err := d.answerCallers()
	if err == nil {
		err = d.serve(ctx, out)
	}
	d.stopping.Store(true)
	d.cfg.log.Info("stopping")
	d.notify(systemd.SdNotifyStopping)
	d.background.Start(func(ctx context.Context) { cutOff(ctx, d.cfg.log, d.conns...) })
	if d.callers != nil {
		d.callers.Stop() // requests in flight need the process
	}
	return errors.Join(err, d.process.Stop())
}

// serve waits for a worker ID before it reports that the process serves: a
// rolling restart then stops the next process. Callers get IDs of tags before.
func (d *daemon) serve(ctx context.Context, out output) error {
	d.synced.look(ctx)
	d.warnUnwitnessed()
	d.process.AwaitClaim(ctx)
	ofInstallation(d.process.Installation(), d.metrics, d.process.Metrics(d.cfg.metricsTags), d.synced.metric, d.synced.differ, unwritten(d.trouble), d.cfg.files, droppedLines(d.cfg.errs))
	d.serving.Store(true)
	d.background.Start(d.synced.run)
	d.background.Start(d.logProblems)
	if d.embedded != nil && d.cfg.worker.Role == worker.RoleWorker {
		d.background.Start(d.warnUnsupplied)
	}
	d.logServing()
	d.background.Start(d.notifyReady)
	if d.cfg.demo {
		if err := d.demo(ctx, out); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.process.Failed():
		return err
	case err := <-d.gone:
		return err
	}
}

// readyPoll is the interval between checks of a process that is not ready.
const readyPoll = 250 * time.Millisecond

// notifyReady reports that the process serves. One that issues only snowflake
// IDs serves once it holds a worker ID.
func (d *daemon) notifyReady(ctx context.Context) {
	for d.cfg.worker.Role == worker.RoleSnowflake && d.process.Ready() != nil {
		if pause.For(ctx, readyPoll); ctx.Err() != nil {
			return
		}
	}
	d.notify(systemd.SdNotifyReady)
}

// notify reports a state to systemd, if it started the process: a unit of
// Type=notify has started once the process serves, so systemctl restart returns
// then.
func (d *daemon) notify(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		d.cfg.log.Warn("systemd not notified", zap.String("state", state), zap.Error(err))
	}
}

// supplyWithin is the time in which a loader should have answered a worker that
// has an embedded server.
const supplyWithin = 10 * time.Second

// warnUnsupplied warns if no loader has come to a worker with an embedded
// server, which is easily started alone.
func (d *daemon) warnUnsupplied(ctx context.Context) {
	pause.For(ctx, supplyWithin)
	if ctx.Err() == nil && !d.process.Supplied() {
		d.cfg.log.Warn("no loader has granted segments yet",
			zap.String("hint", "start a loader with --role loader and --server, or serve with --role all"))
	}
}

// logServing logs the process and the location of its data.
func (d *daemon) logServing() {
	cfg := d.cfg.worker
	counts := zap.Skip() // workers have no store
	if cfg.Role.Loads() {
		counts = zap.String("store", string(d.cfg.source.Kind()))
	}
	fields := []zap.Field{
		zap.String("version", version), zap.String("role", string(cfg.Role)), counts,
		zap.String("prefix", string(cfg.Prefix)), zap.String("instance", d.process.Instance()), zap.String("nats", strings.TrimPrefix(d.at.String(), "at ")),
	}
	if d.embedded != nil {
		fields = append(fields, zap.String("data", d.embedded.Folder()))
	}
	if d.witness != nil {
		fields = append(fields, zap.String("witness", d.witness.Path()))
	}
	d.cfg.log.Info("serving", fields...)
}

// answerCallers answers callers over HTTP, if --api is set.
func (d *daemon) answerCallers() error {
	if d.callers == nil {
		return nil
	}
	ofInstallation(d.process.Installation(), d.metrics, d.callers)
	source, err := d.process.Direct()
	if errors.Is(err, nats.ErrPermissionViolation) {
		err = natsconn.Denied(err, err)
	}
	if err != nil {
		return fmt.Errorf("--api: %w", err)
	}
	d.callers.Answer(source)
	d.cfg.log.Info("answering HTTP", zap.String("address", d.callers.Address()))
	return nil
}
