package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
	"github.com/idworker/idworker/worker/api"
)

// daemon is a process that serves, with all that is open for it.
type daemon struct {
	cfg        serverConfig
	at         installation      // cfg's, or that of the embedded server
	embedded   *embedded.Server  // nil if the server is the user's
	witness    *register.Witness // nil if there is none
	gone       chan error        // receives why an embedded server must end
	callers    *api.Server       // nil if callers are not answered over HTTP
	process    *worker.Process
	synced     *syncWatch
	metrics    *prometheus.Registry
	background *goroutines.Group
	opened     []func()    // what closes it, in the order of opening
	serving    atomic.Bool // all fields above are set
}

// startTimeout bounds the opening of the store, and the demo.
const startTimeout = 30 * time.Second

func newDaemon(cfg serverConfig) *daemon {
	return &daemon{
		cfg: cfg, at: cfg.installation, gone: make(chan error, 1), metrics: newRegistry(), background: goroutines.New(),
	}
}

// onClose has close call a function.
func (d *daemon) onClose(f func()) { d.opened = append(d.opened, f) }

// close ends what runs in the background, and closes what was opened, the latest first.
func (d *daemon) close() {
	d.background.Stop()
	for _, f := range slices.Backward(d.opened) {
		f()
	}
}

// start opens the HTTP addresses, which report that the server starts; the NATS
// server; and the process, which it starts.
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
		err = fmt.Errorf("%w: JetStream is not enabled on the server %s, or has no quorum", err, d.at)
	}
	if err != nil {
		return errors.Join(d.trouble(), err)
	}
	return nil
}

// trouble returns why an embedded server cannot write to its folder, or nil.
func (d *daemon) trouble() error {
	if d.embedded == nil {
		return nil
	}
	return d.embedded.Trouble()
}

// openNATS starts the embedded server, if no other one is named, and opens the
// witness.
func (d *daemon) openNATS(ctx context.Context) (err error) {
	switch {
	case d.cfg.embedded != nil:
		d.embedded, err = embedded.Start(ctx, *d.cfg.embedded)
		if refused := new(embedded.RecoverError); errors.As(err, &refused) {
			refused.Flags = folderFlags(refused, d.cfg.worker.Prefix, d.cfg.source)
		}
		if err != nil {
			return err
		}
		d.onClose(d.embedded.Stop)
		d.at = installation{Server: d.embedded.URL(), Prefix: d.cfg.worker.Prefix}
		d.witness = d.embedded.Witness()
		d.background.Start(func(ctx context.Context) {
			if err := d.embedded.Guard(ctx); err != nil {
				d.gone <- err
			}
		})
	case d.cfg.witness != "":
		if d.witness, err = register.OpenWitness(d.cfg.witness); err != nil {
			return err
		}
		if d.witness.Fresh() {
			d.cfg.log.Warn("new witness, without evidence", zap.String("witness", d.cfg.witness))
		}
	}
	return nil
}

// folderFlags are how a command names a data folder, and the installation in it.
func folderFlags(refused *embedded.RecoverError, prefix messages.Prefix, source backend.Backend) string {
	flags := "--data " + shellWord(refused.Folder)
	if refused.Witness != embedded.WitnessOf(refused.Folder) {
		flags += " --witness " + shellWord(refused.Witness)
	}
	if prefix != messages.DefaultPrefix {
		flags += " --prefix " + string(prefix)
	}
	if source.Kind() != backend.JetStream {
		flags += " --store DSN" // which may have a password in it
	}
	return flags
}

// plain are the paths that a shell reads as they are.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord is a path as it is typed in a shell.
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
	if cfg.Requests, _, err = d.at.dialToStay(ctx, "idworker", cfg.Log); err != nil {
		return err
	}
	d.onClose(cfg.Requests.Close)
	// Without a reconnect buffer: a write that was sent before the register
	// went back must not arrive after it.
	if cfg.Control, cfg.JetStream, err = d.at.dialToStay(ctx, "idworker control", cfg.Log, nats.ReconnectBufSize(-1)); err != nil {
		return err
	}
	d.onClose(cfg.Control.Close)
	d.synced = newSyncWatch(func(ctx context.Context) error { return doctor.CheckSync(ctx, cfg.Control) }, d.cfg.allowUnsynced, cfg.Log)
	starting, explainDenied := natsconn.WhenDenied(ctx, cfg.Requests, cfg.Control)
	d.process, err = d.openProcess(starting, cfg)
	if err == nil {
		err = d.process.Start(starting)
	}
	explained := explainDenied(err)
	if err == nil && explained != nil {
		explained = errors.Join(explained, d.process.Stop())
	}
	return explained
}

// openProcess opens the store, where the role needs one, and makes the process.
func (d *daemon) openProcess(ctx context.Context, cfg worker.Config) (process *worker.Process, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	switch {
	case cfg.Role.Loads():
		segments, err := d.openStore(ctx, cfg)
		if err != nil {
			return nil, err
		}
		d.onClose(func() { _ = segments.Close() }) // all answers are in
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

// openStore opens the store of a process that loads: the register, which it
// creates if it is missing; and the table. The store is closed when nothing is
// in flight any more.
func (d *daemon) openStore(ctx context.Context, cfg worker.Config) (segments *backend.Store, err error) {
	err = kv.WithRetry(ctx, cfg.Log, func(ctx context.Context) error {
		if err := worker.Provision(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas); err != nil {
			return err
		}
		if err := register.Create(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas); err != nil {
			return err
		}
		segments, err = d.cfg.source.Open(ctx, register.Config{JetStream: cfg.JetStream, Prefix: cfg.Prefix, Witness: d.witness, Log: cfg.Log})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := segments.Prepare(ctx, d.cfg.migrate, cfg.Log); err != nil {
		return nil, errors.Join(err, segments.Close())
	}
	if segments.Database != nil {
		warnOfSettings(segments.Database.Durability(ctx), cfg.Log)
	}
	return segments, nil
}

// keepWitness keeps the witness of an embedded server whose process does not
// load.
func (d *daemon) keepWitness(ctx context.Context, cfg worker.Config) error {
	if err := register.Create(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas); err != nil {
		return err
	}
	watched, err := register.Open(ctx, register.Config{
		JetStream: cfg.JetStream, Prefix: cfg.Prefix, Witness: d.witness, Beside: backend.Beside(cfg.Prefix), Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	d.background.Start(watched.Run)
	d.onClose(func() { _ = watched.Close() }) // the next start compares with the note of a second ago
	return nil
}

// run serves until ctx ends, or the process cannot go on: because of its worker
// ID, or because of the folder of the embedded server.
func (d *daemon) run(ctx context.Context, out output) error {
	d.synced.look(ctx)
	d.process.AwaitClaim(ctx)
	d.serving.Store(true)
	ofInstallation(d.process.Installation(), d.metrics, d.process.Metrics(d.cfg.metricsTags), d.synced.metric, unwritten(d.trouble))
	d.background.Start(d.synced.run)
	if d.embedded != nil && !d.cfg.worker.Role.Loads() {
		d.background.Start(d.warnUnsupplied)
	}
	d.logServing()
	err := d.answerCallers()
	if err == nil && d.cfg.demo {
		err = d.demo(ctx, out)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-d.process.Failed():
		case err = <-d.gone:
		}
	}
	d.cfg.log.Info("stopping")
	if d.callers != nil {
		d.callers.Stop() // requests under way need the process
	}
	return errors.Join(err, d.process.Stop())
}

// supplyWithin is the time in which a loader should have answered a worker
// beside an embedded server.
const supplyWithin = 10 * time.Second

// warnUnsupplied warns of a worker to whose embedded server no loader has come:
// it is easily started by itself.
func (d *daemon) warnUnsupplied(ctx context.Context) {
	pause.For(ctx, supplyWithin)
	if ctx.Err() == nil && !d.process.Supplied() {
		d.cfg.log.Warn("this process answers requests and reserves no segments, and no loader has reserved any for it yet; start a loader with --role loader and --server, or serve with --role all")
	}
}

// logServing logs what serves, and where its data is.
func (d *daemon) logServing() {
	cfg := d.cfg.worker
	counts := zap.Skip() // only loaders know where
	if cfg.Role.Loads() {
		counts = zap.String("store", string(d.cfg.source.Kind()))
	}
	fields := []zap.Field{
		zap.String("version", version), zap.String("role", string(cfg.Role)), counts,
		zap.String("prefix", string(cfg.Prefix)), zap.String("instance", d.process.Instance()), zap.String("nats", strings.TrimPrefix(d.at.String(), "at ")),
	}
	if d.embedded != nil {
		fields = append(fields, zap.String("data", d.embedded.Folder()), zap.String("witness", d.witness.Path()))
	}
	d.cfg.log.Info("serving", fields...)
}

// answerCallers answers callers over HTTP, if that was wanted.
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
