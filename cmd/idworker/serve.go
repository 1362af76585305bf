package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/httpserver"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// serveCmd runs a worker, a loader, or both; and a NATS server too, unless one is named.
type serveCmd struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`

	Migrate bool `help:"Create the table if it is missing."`

	embeddedFlags `embed:""`

	Witness string `help:"File that shows how far IDs were handed out, outside the data that could be put back to an older state (default: FOLDER.witness for --data FOLDER, none with --server)." placeholder:"FILE" type:"path"`

	Role     worker.Role `help:"What this process does: worker (answers requests), loader (reserves segments), or all." default:"all" enum:"all,worker,loader"`
	Replicas int         `help:"Replicas of the streams and buckets that it creates, 1 to 5." default:"1"`

	limitFlags `embed:""`

	snowflakeFlags `embed:""`

	AllowUnsynced bool `help:"Do not warn that NATS does not sync every write, or does not say so: IDs may be handed out twice after a power failure."`
	apiFlags      `embed:""`

	httpFlags   `embed:""`
	MetricsTags int `help:"How many tags, the busiest ones, have metrics of their own; 0 to 100000." default:"1000"`

	Demo     bool          `help:"Create a tag, get IDs, and show how to get more. Answers over HTTP and shows the status page, too, on ports 8080 and 9090 of this machine if they are free, or where --api and --http say."`
	LogLevel zapcore.Level `help:"Lowest level that is logged: debug, info, warn or error." default:"info"`
}

// limitFlags bound what a process gives, and how long it takes.
type limitFlags struct {
	Wait     time.Duration `help:"How long a request may wait for a segment." default:"2s"`
	MaxBatch int64         `help:"Largest count of one request." default:"10000"`
	MaxStep  int64         `help:"Largest step, that is IDs per segment." default:"1000000"`
}

// embeddedFlags are for the embedded NATS server, the default.
type embeddedFlags struct {
	Listen string `help:"Where the embedded NATS server listens, if --server is not given." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	Data   string `help:"Data folder of the embedded NATS server." default:"idworker-data" type:"path"`
}

// isLoopback reports whether only this machine can reach a listener. A name may be one of any machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkEmbedded refuses flags for the embedded server where another one is named: who gives them does not expect
// to count there.
func (s *serveCmd) checkEmbedded(command *kong.Context) error {
	if !s.named() {
		return nil
	}
	for _, flag := range []string{"listen", "data"} {
		if isGiven(command, flag) {
			return explain.Usage(fmt.Errorf("--%s is of the embedded NATS server, but %s names another one: leave out one of them", flag, s.namedBy(command)))
		}
	}
	return nil
}

// maxMetricsTags bounds what a scrape may cost.
const maxMetricsTags = 100_000

// startTimeout is how long the store and the demo may take.
const startTimeout = 30 * time.Second

// Run serves until ctx ends.
func (s *serveCmd) Run(ctx context.Context, command *kong.Context, out output) (err error) {
	if err := s.checkEmbedded(command); err != nil {
		return err
	}
	cfg, source, err := s.parse()
	if err != nil {
		return err
	}
	log := newLogger(s.LogLevel)
	defer func() { _ = log.Sync() }() // stderr cannot be synced on every system
	if s.Demo {
		s.openDoors(ctx, log)
	}

	registry := newRegistry()
	var running atomic.Pointer[worker.Process]
	seen := newStatusSource(s, &running)
	page := seen.shared()
	defer page.Close()
	stopHTTP, err := s.serveHTTP(ctx, registry, func() httpserver.State { return stateOf(running.Load()) }, page, log)
	if err != nil {
		return err
	}
	defer stopHTTP()
	callers, err := s.openAPI(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer callers.stop()

	var where []zap.Field // the data is
	var gone <-chan error // when it is there no more, or cannot be written to
	var witness *register.Witness
	cfg.Trouble = func() error { return nil }
	if !s.named() {
		server, err := s.embed(ctx, source, log)
		if err != nil {
			return err
		}
		defer server.Stop()
		var unguard func()
		gone, unguard = guard(ctx, server)
		defer unguard()
		cfg.Trouble = server.Trouble
		s.installation = installation{Server: server.URL(), Prefix: s.Prefix}
		witness = server.Witness()
		where = []zap.Field{zap.String("data", server.Folder()), zap.String("witness", witness.Path())}
	} else if witness, err = s.openWitness(log); err != nil {
		return err
	}
	var opened closers
	defer opened.close()
	cfg.Log = log
	w, synced, err := s.start(ctx, cfg, source, witness, &opened)
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: JetStream is not enabled on the server %s, or has no quorum", err, s.installation)
	}
	if err != nil {
		return errors.Join(cfg.Trouble(), err)
	}
	w.AwaitClaim(ctx)
	running.Store(w)
	ofInstallation(w.Installation(), registry, w.Metrics(s.MetricsTags), synced.Metrics(), unwritten(cfg.Trouble))
	go synced.Run(ctx)
	seen.started()
	s.logServing(log, w, source, where)
	err = callers.answer(w, registry, log)
	if err == nil && s.Demo {
		err = s.demo(ctx, out, source)
	}
	if err == nil {
		err = s.stay(ctx, w, gone, log)
	}
	log.Info("stopping")
	callers.stop() // what they asked for needs the worker
	return errors.Join(err, w.Stop())
}

// stay returns when ctx ends, or with an error when the process cannot go on: because of its worker ID, or because of the
// folders of the embedded server; there is no such channel beside another server.
func (s *serveCmd) stay(ctx context.Context, w *worker.Process, gone <-chan error, log *zap.Logger) error {
	if s.Role == worker.RoleWorker && gone != nil {
		warnUnsupplied(ctx, w, log)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-w.Failed():
		return err
	case err := <-gone:
		return err
	}
}

// guard tells when an embedded server has to end because of its folders, until stop is called.
func guard(ctx context.Context, server *embedded.Server) (gone <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Guard(ctx); err != nil {
			failed <- err
		}
	})
	return failed, func() { cancel(); running.Wait() }
}

// unwritten is a metric of the trouble of an embedded server.
func unwritten(trouble func() error) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "idworker_nats_unwritten",
		Help: "Whether the embedded NATS server could not write to its data folder, as on a full disk. 1 or 0; 0 without one.",
	}, func() float64 {
		if trouble() != nil {
			return 1
		}
		return 0
	})
}

// stateOf is what /readyz tells of a process, which is nil until it has started.
func stateOf(w *worker.Process) httpserver.State {
	if w == nil {
		return httpserver.State{NotReady: errors.New("starting")}
	}
	but := w.Degraded()
	if o := w.Report(0).Outages; but == nil && o != nil && o.Now {
		but = fmt.Errorf("its store fails: %s", o.Error)
	}
	return httpserver.State{NotReady: hinted(w.Ready()), But: hinted(but)}
}

// hinted adds to an error what can be done about it.
func hinted(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(explain.Text(err))
}

// supplyWithin is after how long a worker beside an embedded server should have been answered
// by a loader.
const supplyWithin = 10 * time.Second

// warnUnsupplied warns of a worker to whose embedded server no loader has come: it is easily
// started by itself. It returns after supplyWithin, or when ctx ends.
func warnUnsupplied(ctx context.Context, w *worker.Process, log *zap.Logger) {
	pause.For(ctx, supplyWithin)
	if ctx.Err() == nil && !w.Supplied() {
		log.Warn("this process answers requests and reserves no segments, and no loader has reserved any for it yet; start a loader with --role loader and --server, or serve with --role all")
	}
}

// logServing says what serves, and where its data is.
func (s *serveCmd) logServing(log *zap.Logger, w *worker.Process, source backend.Backend, where []zap.Field) {
	counts := zap.Skip() // only loaders know where
	if s.Role != worker.RoleWorker {
		counts = zap.String("store", string(source.Kind()))
	}
	log.Info("serving", append([]zap.Field{
		zap.String("version", version), zap.String("role", string(s.Role)), counts,
		zap.String("prefix", string(s.Prefix)), zap.String("instance", w.Instance()), zap.String("nats", strings.TrimPrefix(s.String(), "at ")),
	}, where...)...)
}

// parse turns the flags into the worker's configuration and the store it loads from, and
// refuses what does not fit.
func (s *serveCmd) parse() (cfg worker.Config, source backend.Backend, err error) {
	if cfg, err = s.config(); err != nil {
		return cfg, source, err
	}
	if err = cfg.Check(); err != nil {
		return cfg, source, err
	}
	source, err = s.backend()
	switch {
	case err != nil:
	case s.Migrate && source.Kind() == backend.JetStream:
		err = explain.Usage(errors.New("--migrate: there is no table to create without a database, see --store"))
	case s.MetricsTags < 0 || s.MetricsTags > maxMetricsTags:
		err = explain.Usage(fmt.Errorf("--metrics-tags %d: allowed is 0 to %d", s.MetricsTags, maxMetricsTags))
	}
	return cfg, source, err
}

// embed starts the embedded server, and has everything witnessed that is counted in it.
func (s *serveCmd) embed(ctx context.Context, source backend.Backend, log *zap.Logger) (*embedded.Server, error) {
	if s.hasLogin() {
		log.Warn("login and TLS settings are ignored: the embedded NATS server has no logins; name your own server with --server")
	}
	host, port, err := httpserver.SplitAddress("--listen", s.Listen)
	if err != nil {
		return nil, err
	}
	if !isLoopback(host) {
		log.Warn("whoever reaches this address may get IDs, and may change and delete the counters: the embedded NATS server has no logins; listen on 127.0.0.1, or name a server of yours that has logins, see nats.conf",
			zap.String("listen", s.Listen))
	}
	server, err := embedded.Start(ctx, embedded.Config{
		Host: host, Port: port, Folder: s.Data, Witness: s.Witness, Prefix: s.Prefix, Beside: backend.Beside(s.Prefix), Log: log,
	})
	if refused := new(embedded.RecoverError); errors.As(err, &refused) {
		if s.Prefix != messages.DefaultPrefix {
			refused.Flags += " --prefix " + string(s.Prefix)
		}
		if source.Kind() != backend.JetStream {
			refused.Flags += " --store DSN" // which may have a password in it
		}
	}
	return server, err
}

// config is the worker's configuration, as far as flags determine it.
func (s *serveCmd) config() (worker.Config, error) {
	lease, err := s.lease()
	return worker.Config{
		Prefix:   s.Prefix,
		Role:     s.Role,
		Replicas: s.Replicas,
		MaxBatch: s.MaxBatch,
		MaxStep:  s.MaxStep,
		Wait:     s.Wait,
		Lease:    lease,
		Version:  version,
	}, err
}

// closers closes what was opened, the latest first.
type closers []func()

func (c *closers) add(f func()) { *c = append(*c, f) }

func (c *closers) close() {
	for _, f := range slices.Backward(*c) {
		f()
	}
}

// start connects and starts the worker. What it adds to opened is to be closed after
// the worker has stopped.
func (s *serveCmd) start(ctx context.Context, cfg worker.Config, source backend.Backend, witness *register.Witness, opened *closers) (*worker.Process, *doctor.SyncWatch, error) {
	var err error
	if cfg.Requests, _, err = s.dialToStay(ctx, "idworker", cfg.Log); err != nil {
		return nil, nil, err
	}
	opened.add(cfg.Requests.Close)
	// Without a reconnect buffer: what was written before the register went back must not arrive after it.
	if cfg.Control, cfg.JetStream, err = s.dialToStay(ctx, "idworker control", cfg.Log, nats.ReconnectBufSize(-1)); err != nil {
		return nil, nil, err
	}
	opened.add(cfg.Control.Close)
	starting, explainDenied := natsconn.WhenDenied(ctx, cfg.Requests, cfg.Control)
	w, err := s.startWorker(starting, cfg, source, witness, opened)
	explained := explainDenied(err)
	if err == nil && explained != nil {
		explained = errors.Join(explained, w.Stop())
	}
	synced := doctor.NewSyncWatch(cfg.Control, s.AllowUnsynced, cfg.Log)
	if explained == nil {
		synced.Look(ctx)
	}
	return w, synced, explained
}

// startWorker opens the store, where the role needs one, and starts the worker. How long the
// first part takes is limited.
func (s *serveCmd) startWorker(ctx context.Context, cfg worker.Config, source backend.Backend, witness *register.Witness, opened *closers) (*worker.Process, error) {
	w, err := s.openWorker(ctx, cfg, source, witness, opened)
	if err != nil {
		return nil, err
	}
	if err := w.Start(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

func (s *serveCmd) openWorker(ctx context.Context, cfg worker.Config, source backend.Backend, witness *register.Witness, opened *closers) (*worker.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	switch {
	case s.Role != worker.RoleWorker:
		segments, err := s.openStore(ctx, cfg, source, witness)
		if err != nil {
			return nil, err
		}
		opened.add(func() { _ = segments.Close() }) // all answers are in
		cfg.Store, cfg.StoreName, cfg.Reservations = segments, source.Name(), source.Reservations()
	case witness != nil:
		if err := s.keepWitness(ctx, cfg, witness, opened); err != nil {
			return nil, err
		}
	}
	var w *worker.Process
	err := leader.Patiently(ctx, cfg.Log, func(ctx context.Context) (err error) {
		w, err = worker.Open(ctx, cfg)
		return err
	})
	return w, err
}
