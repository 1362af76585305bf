package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/enriching"
	"github.com/idworker/idworker/cmd/internal/httpserver"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/leader"
	"github.com/idworker/idworker/messages/enrich"
)

// enrichCmd stamps the events of one stream with IDs and publishes them to another.
type enrichCmd struct {
	installation    `embed:"" group:"nats"`
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
	ofInstallation(enricher.Installation(), registry, enricher.Metrics())
	log.Info("enriching", zap.String("version", version), zap.String("enrichment", enricher.Name()), zap.String("instance", enricher.Instance()))
	enriching.Run(ctx, enricher)
	log.Info("stopped", enriching.Stopped(enricher.Figures())...)
	return nil
}

// open opens the enrichment. A server that has just started, or whose cluster has no leader, is asked again.
func (c *enrichCmd) open(ctx context.Context, js jetstream.JetStream, log *zap.Logger) (enricher *enrich.Enricher, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ctx, explainDenied := natsconn.WhenDenied(ctx, js.Conn())
	err = leader.Patiently(ctx, log, func(ctx context.Context) (err error) {
		enricher, err = c.Open(ctx, js, c.Prefix, log)
		return err
	})
	return enricher, explainDenied(err)
}
