package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/durability"
	"github.com/idworker/idworker/snowflake/lease"
	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/worker"
)

// serveCmd runs a worker, a loader, or both; and a NATS server too, unless it is
// told of one.
type serveCmd struct {
	installation `embed:""`
	storeFlags   `embed:""`

	Migrate bool `help:"Create the table if it is missing."`

	Listen string `help:"Where the embedded NATS server listens, without --server." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	Data   string `help:"Folder of the embedded NATS server." default:"idworker-data" type:"path"`

	Role       worker.Role   `help:"What to do: all, worker (answers requests) or loader (loads segments)." default:"all" enum:"all,worker,loader"`
	Replicas   int           `help:"Replicas of streams and buckets that are created, 1 to 5." default:"1"`
	Wait       time.Duration `help:"How long a request may wait for a segment." default:"2s"`
	MaxBatch   int64         `help:"Largest count of one request." default:"10000"`
	MaxStep    int64         `help:"Largest step." default:"1000000"`
	TagRefresh time.Duration `help:"How often loaders mirror the store's tags into the directory." default:"1m"`

	snowflakeFlags `embed:""`

	httpFlags   `embed:""`
	MetricsTags int `help:"How many tags have metrics of their own, the busiest ones; 0 to 100000." default:"1000"`

	Demo     bool          `help:"Create a tag, get IDs and show how."`
	LogLevel zapcore.Level `help:"Least level to log: debug, info, warn, error." default:"info"`
}

// maxMetricsTags bounds what a scrape may cost.
const maxMetricsTags = 100_000

// startTimeout is how long the store and the demo may take.
const startTimeout = 30 * time.Second

// Run serves until ctx ends.
func (s *serveCmd) Run(ctx context.Context, out output) (err error) {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	_, kind, err := s.dsn()
	if err != nil {
		return err
	}
	if s.Migrate && kind == kindJetStream {
		return &usageError{errors.New("--migrate: there is no table to make without a database, see --store")}
	}
	if s.MetricsTags < 0 || s.MetricsTags > maxMetricsTags {
		return &usageError{fmt.Errorf("--metrics-tags %d: allowed is 0 to %d", s.MetricsTags, maxMetricsTags)}
	}
	log := newLogger(s.LogLevel)
	defer func() { _ = log.Sync() }() // stderr cannot be synced on every system

	registry := newRegistry()
	var running atomic.Pointer[worker.Worker]
	stopHTTP, err := s.serveHTTP(ctx, registry, func() error {
		if w := running.Load(); w != nil {
			return w.Ready()
		}
		return errors.New("starting")
	}, log)
	if err != nil {
		return err
	}
	defer stopHTTP()

	if !s.named() {
		if s.hasLogin() {
			log.Warn("login and TLS settings are not used: the embedded NATS server takes none; name yours with --server")
		}
		embedded, err := startEmbedded(ctx, s.Listen, s.Data, log)
		if err != nil {
			return err
		}
		defer embedded.stop()
		if err := s.count(ctx, embedded); err != nil {
			return err
		}
		s.installation = installation{Server: embedded.url(), Prefix: s.Prefix}
	}
	var opened closers
	defer opened.close()
	cfg.Log = log
	w, err := s.start(ctx, cfg, &opened)
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: JetStream is not enabled on the server %s, or has no quorum", err, s.installation)
	}
	if err != nil {
		return err
	}
	running.Store(w)
	registry.MustRegister(w.Metrics(s.MetricsTags))
	log.Info("serving", zap.String("version", version), zap.String("role", string(s.Role)), zap.String("store", kind),
		zap.String("prefix", string(s.Prefix)), zap.String("instance", w.Instance()))
	if s.Demo {
		err = demo(ctx, out, s.installation, s.storeFlags)
	}
	if err == nil {
		<-ctx.Done()
	}
	log.Info("stopping")
	return errors.Join(err, w.Stop())
}

// checkSync is [durability.CheckServers], but knows that an embedded server makes sure itself.
func checkSync(ctx context.Context, conn *nats.Conn) error {
	if conn.ConnectedServerName() == embeddedName {
		return nil
	}
	return durability.CheckServers(ctx, conn)
}

// warnOfSync says once what a power failure would do to IDs.
func warnOfSync(ctx context.Context, conn *nats.Conn, log *zap.Logger) {
	switch err := checkSync(ctx, conn); {
	case errors.Is(err, durability.ErrNoSync):
		log.Warn("NATS acknowledges writes before they are on disk: after a power failure IDs can be handed out twice; set sync_interval: always in the jetstream block of every server", zap.Error(err))
	case errors.Is(err, durability.ErrSyncUnknown):
		log.Info("NATS does not tell whether every write is on disk before it is acknowledged, see Durability in docs/operations.md", zap.Error(err))
	}
}

// count makes the buckets in which IDs are counted, as far as they are in this server,
// and has them witnessed before anything is counted.
func (s *serveCmd) count(ctx context.Context, in *embedded) error {
	conn, js, err := in.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := lease.Create(ctx, js, s.Prefix, s.LeaseTTL, s.Replicas); err != nil {
		return err
	}
	buckets := []string{agreement.BucketName(s.Prefix), lease.ClockBucketName(s.Prefix)}
	if _, kind, err := s.dsn(); err == nil && kind == kindJetStream {
		if err := jetstreamstore.Create(ctx, js, s.Prefix, s.Replicas); err != nil {
			return err
		}
		buckets = append(buckets, jetstreamstore.BucketName(s.Prefix))
	}
	return in.witness(ctx, buckets)
}

// config is the worker's configuration as far as flags say it.
func (s *serveCmd) config() (worker.Config, error) {
	lease, err := s.lease()
	return worker.Config{
		Prefix:     s.Prefix,
		Role:       s.Role,
		Replicas:   s.Replicas,
		MaxBatch:   s.MaxBatch,
		MaxStep:    s.MaxStep,
		Wait:       s.Wait,
		TagRefresh: s.TagRefresh,
		Lease:      lease,
		Version:    version,
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
func (s *serveCmd) start(ctx context.Context, cfg worker.Config, opened *closers) (*worker.Worker, error) {
	var err error
	if cfg.Requests, _, err = s.dial(stayConnected("idworker", cfg.Log)...); err != nil {
		return nil, err
	}
	opened.add(cfg.Requests.Close)
	if cfg.Control, cfg.JetStream, err = s.dial(stayConnected("idworker control", cfg.Log)...); err != nil {
		return nil, err
	}
	opened.add(cfg.Control.Close)
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	starting, explain := whenRefused(starting, cfg.Requests, cfg.Control)
	w, err := s.startWorker(starting, cfg, opened)
	explained := explain(err)
	if err == nil && explained != nil {
		explained = errors.Join(explained, w.Stop())
	}
	if explained == nil {
		warnOfSync(ctx, cfg.Control, cfg.Log)
	}
	return w, explained
}

// startWorker opens the store, where the role needs one, and starts the worker.
func (s *serveCmd) startWorker(ctx context.Context, cfg worker.Config, opened *closers) (*worker.Worker, error) {
	if s.Role != worker.RoleWorker {
		segments, err := s.openStore(ctx, cfg)
		if segments.close != nil {
			opened.add(func() { _ = segments.close() }) // nothing is under way any more
		}
		if err != nil {
			return nil, err
		}
		cfg.Store, cfg.StoreName = segments, segments.name
	}
	var w *worker.Worker
	err := patiently(ctx, cfg.Log, func(ctx context.Context) (err error) {
		w, err = worker.Start(ctx, cfg)
		return err
	})
	return w, err
}

// firstTry is how long JetStream may take to answer until it is asked again: a request that
// comes while a cluster has no leader is not answered later.
const firstTry = 5 * time.Second

// patiently does something that asks JetStream, and does it again while there is no answer.
// Each try may take twice as long as the one before, for one that is slow has to succeed too.
func patiently(ctx context.Context, log *zap.Logger, do func(context.Context) error) error {
	for timeout := firstTry; ; timeout *= 2 {
		try, cancel := context.WithTimeout(ctx, timeout)
		err := do(try)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		log.Warn("JetStream does not answer yet, trying again; has it got a leader?", zap.Error(err))
	}
}

// openStore opens the segment store, made if it is missing and may be made. The store
// has to be closed even if there is an error.
func (s *serveCmd) openStore(ctx context.Context, cfg worker.Config) (segmentStore, error) {
	if _, kind, err := s.dsn(); err == nil && kind == kindJetStream {
		err := patiently(ctx, cfg.Log, func(ctx context.Context) error {
			return jetstreamstore.Create(ctx, cfg.JetStream, cfg.Prefix, cfg.Replicas)
		})
		if err != nil {
			return segmentStore{}, err
		}
	}
	segments, err := s.open(ctx, cfg.JetStream, cfg.Prefix)
	if err != nil {
		return segmentStore{}, err
	}
	return segments, segments.prepare(ctx, s.Migrate, cfg.Log)
}
