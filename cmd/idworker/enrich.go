package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/enriching"
	"github.com/idworker/idworker/cmd/internal/httpserver"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/messages/enrich"
)

// enrichCmd stamps the events of one stream with IDs and publishes them to another.
type enrichCmd struct {
	installation    `embed:""`
	enriching.Flags `embed:""`
	httpFlags       `embed:""`

	LogLevel zapcore.Level `help:"Lowest level that is logged: debug, info, warn or error." default:"info"`
}

// Run enriches until ctx ends.
func (c *enrichCmd) Run(ctx context.Context, out output) error {
	log := newLogger(c.LogLevel)
	defer func() { _ = log.Sync() }() // stderr cannot be synced on every system
	if c.ResumeAfter != nil {
		return c.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			return c.Resume(ctx, js, c.Prefix, out, log)
		})
	}
	registry := newRegistry()
	var running atomic.Pointer[enrich.Enricher]
	stopHTTP, err := c.serveHTTP(ctx, registry, func() httpserver.State {
		if e := running.Load(); e != nil {
			return httpserver.State{NotReady: e.Ready()}
		}
		return httpserver.State{NotReady: errors.New("starting")}
	}, nil, log)
	if err != nil {
		return err
	}
	defer stopHTTP()
	conn, js, err := c.dialToStay(ctx, "idworker enrich", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	enricher, err := c.open(ctx, js, log)
	if err != nil {
		return err
	}
	running.Store(enricher)
	registry.MustRegister(enricher.Metrics())
	log.Info("enriching", zap.String("version", version), zap.String("enrichment", enricher.Name()), zap.String("instance", enricher.Instance()))
	enriching.Run(ctx, enricher)
	log.Info("stopped", enriching.Stopped(enricher.Figures())...)
	return nil
}

// openTimeout is how long one try to open an enrichment may take. A server that has just
// started, or has no leader, leaves requests without an answer.
const openTimeout = 5 * time.Second

func (c *enrichCmd) open(ctx context.Context, js jetstream.JetStream, log *zap.Logger) (*enrich.Enricher, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ctx, explainDenied := natsconn.WhenDenied(ctx, js.Conn())
	for {
		try, cancel := context.WithTimeout(ctx, openTimeout)
		enricher, err := c.Open(try, js, c.Prefix, log)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return enricher, explainDenied(err)
		}
	}
}
