package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	jetstreamstore "github.com/idworker/idworker/store/jetstream"
	"github.com/idworker/idworker/worker"
)

// serveCmd runs a worker, a loader, or both; and a NATS server too, unless it is
// told of one.
type serveCmd struct {
	installation `embed:""`

	Listen string `help:"Where the embedded NATS server listens, without --server." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	Data   string `help:"Folder of the embedded NATS server." default:"idworker-data" type:"path"`

	Role       worker.Role   `help:"What to do: all, worker (answers requests) or loader (loads segments)." default:"all" enum:"all,worker,loader"`
	Replicas   int           `help:"Replicas of streams and buckets that are created, 1 to 5." default:"1"`
	Wait       time.Duration `help:"How long a request may wait for a segment." default:"2s"`
	MaxBatch   int64         `help:"Largest count of one request." default:"10000"`
	MaxStep    int64         `help:"Largest step." default:"1000000"`
	TagRefresh time.Duration `help:"How often loaders mirror the store's tags into the directory." default:"1m"`

	Demo     bool          `help:"Create a tag, get IDs and show how."`
	LogLevel zapcore.Level `help:"Least level to log: debug, info, warn, error." default:"info"`
}

// startTimeout is how long the store and the demo may take.
const startTimeout = 30 * time.Second

// Run serves until ctx ends.
func (s *serveCmd) Run(ctx context.Context, out output) (err error) {
	if err := s.config().WithDefaults().Check(); err != nil {
		return err
	}
	log := newLogger(s.LogLevel)
	defer func() { _ = log.Sync() }() // stderr cannot be synced on every system

	url := s.Server
	if url == "" {
		embedded, err := startEmbedded(s.Listen, s.Data, log)
		if err != nil {
			return err
		}
		defer embedded.stop()
		url = embedded.url()
	}
	w, closeAll, err := s.start(ctx, url, log)
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: JetStream is not enabled at %s, or has no quorum", err, url)
	}
	if err != nil {
		return err
	}
	defer closeAll()
	log.Info("serving", zap.String("version", version), zap.String("role", string(s.Role)),
		zap.String("prefix", string(s.Prefix)), zap.String("instance", w.Instance()))
	if s.Demo {
		err = demo(ctx, out, url, s.Prefix)
	}
	if err == nil {
		<-ctx.Done()
	}
	log.Info("stopping")
	return errors.Join(err, w.Stop())
}

// config is the worker's configuration as far as flags say it.
func (s *serveCmd) config() worker.Config {
	return worker.Config{
		Prefix:     s.Prefix,
		Role:       s.Role,
		Replicas:   s.Replicas,
		MaxBatch:   s.MaxBatch,
		MaxStep:    s.MaxStep,
		Wait:       s.Wait,
		TagRefresh: s.TagRefresh,
		Version:    version,
	}
}

// start connects and starts the worker. closeAll closes the connections, after the
// worker has stopped.
func (s *serveCmd) start(ctx context.Context, url string, log *zap.Logger) (w *worker.Worker, closeAll func(), err error) {
	cfg := s.config()
	cfg.Log = log
	var conns []*nats.Conn
	closeAll = func() {
		for _, c := range conns {
			c.Close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	for _, c := range []struct {
		name string
		conn **nats.Conn
	}{{"idworker", &cfg.Requests}, {"idworker control", &cfg.Control}} {
		conn, err := nats.Connect(url, stayConnected(c.name, log)...)
		if err != nil {
			return nil, nil, fmt.Errorf("connect to NATS at %s: %w", url, err)
		}
		conns = append(conns, conn)
		*c.conn = conn
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if s.Role != worker.RoleWorker {
		if cfg.Store, err = openStore(ctx, cfg); err != nil {
			return nil, nil, err
		}
	}
	cfg.StoreName = "jetstream"
	w, err = worker.Start(ctx, cfg)
	return w, closeAll, err
}

// openStore opens the segment store, made if it is missing.
func openStore(ctx context.Context, cfg worker.Config) (*jetstreamstore.Store, error) {
	js, err := jetstream.New(cfg.Control)
	if err != nil {
		return nil, err
	}
	if err := jetstreamstore.Create(ctx, js, cfg.Prefix, cfg.Replicas); err != nil {
		return nil, err
	}
	return jetstreamstore.Open(ctx, js, cfg.Prefix)
}
