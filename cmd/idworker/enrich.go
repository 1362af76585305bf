package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/httpserver"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
)

// enrichCmd stamps the events of one stream with IDs and publishes them to another.
type enrichCmd struct {
	installation `embed:""`

	From   string `required:"" help:"Stream to read events from." placeholder:"STREAM"`
	Filter string `help:"Which of its subjects to read." default:">" placeholder:"SUBJECT"`
	To     string `required:"" help:"Subject for stamped events; its wildcards stand for what those of --filter matched." placeholder:"SUBJECT"`
	ID     string `required:"" help:"Which IDs: snowflake, or segment:TAG; {{wildcard(n)}} in the tag is what the nth * of --filter matched." placeholder:"KIND"`

	JSON       string          `name:"json" help:"Put the ID into the event's JSON object too, at this path, as a string." placeholder:"KEY.KEY"`
	JSONNumber bool            `name:"json-number" help:"Write the ID as a JSON number, which JavaScript rounds beyond 2^53."`
	Existing   enrich.Existing `help:"What to do with events that have an ID already: keep it and pass them on, or refuse them." default:"keep" enum:"keep,refuse"`
	OnLoss     enrich.OnLoss   `help:"What to do if the source removed events before they were enriched: go on with the others, or stand still." default:"go-on" enum:"go-on,stop"`
	DeadLetter string          `help:"Subject for events that cannot be stamped. Without one, such an event holds up all those behind it." placeholder:"SUBJECT"`

	ResumeAfter *uint64 `help:"Decide that the events of the source through this sequence are enriched and no others, where nothing else tells, and end." placeholder:"SEQ"`

	Replicas  int `help:"Replicas of the bucket of records, if it is created; 1 to 5." default:"1"`
	httpFlags `embed:""`

	LogLevel zapcore.Level `help:"Lowest level that is logged: debug, info, warn or error." default:"info"`
}

// Run enriches until ctx ends.
func (c *enrichCmd) Run(ctx context.Context) error {
	log := newLogger(c.LogLevel)
	defer func() { _ = log.Sync() }() // stderr cannot be synced on every system
	registry := newRegistry()
	var running atomic.Pointer[enrich.Enricher]
	stopHTTP, err := c.serveHTTP(ctx, registry, func() httpserver.State {
		if e := running.Load(); e != nil {
			return httpserver.State{NotReady: e.Ready()}
		}
		return httpserver.State{NotReady: errors.New("starting")}
	}, log)
	if err != nil {
		return err
	}
	defer stopHTTP()
	conn, js, err := c.dialToStay(ctx, "idworker enrich", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	starting, explainDenied := natsconn.WhenDenied(ctx, conn)
	if c.ResumeAfter != nil {
		return explainDenied(c.resume(starting, conn, js, log))
	}
	enricher, err := c.open(starting, conn, js, log)
	if err := explainDenied(err); err != nil {
		return err
	}
	running.Store(enricher)
	registry.MustRegister(enricher.Metrics())
	log.Info("enriching", zap.String("version", version), zap.String("enrichment", enricher.Name()), zap.String("instance", enricher.Instance()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		enricher.Run(ctx)
	}()
	showProgress(done, enricher)
	log.Info("stopped", zap.Any("figures", enricher.Figures()))
	return nil
}

// openTimeout is how long one try to open an enrichment may take. A server that has just
// started, or has no leader, leaves requests without an answer.
const openTimeout = 5 * time.Second

func (c *enrichCmd) open(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, log *zap.Logger) (*enrich.Enricher, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(ctx, openTimeout)
		e, err := enrich.Open(try, c.config(conn, js, log))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return e, err
		}
	}
}

func (c *enrichCmd) resume(ctx context.Context, conn *nats.Conn, js jetstream.JetStream, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return enrich.Resume(ctx, c.config(conn, js, log), *c.ResumeAfter)
}

func (c *enrichCmd) config(conn *nats.Conn, js jetstream.JetStream, log *zap.Logger) enrich.Config {
	return enrich.Config{
		Conn: conn, JetStream: js, IDs: messages.NewClient(conn, c.Prefix), Prefix: c.Prefix,
		From: c.From, Filter: c.Filter, To: c.To, ID: c.ID,
		JSON: c.JSON, JSONNumber: c.JSONNumber, Existing: c.Existing, DeadLetter: c.DeadLetter,
		OnLoss: c.OnLoss, Explain: explain.Text, Replicas: c.Replicas, Log: log,
	}
}

// showProgress shows figures once a second, on one line, until done. It does so only if
// stderr is a terminal.
func showProgress(done <-chan struct{}, e *enrich.Enricher) {
	info, err := os.Stderr.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		<-done
		return
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var before int64
	for {
		select {
		case <-done:
			fmt.Fprintln(os.Stderr)
			return
		case <-ticker.C:
			f := e.Figures()
			fmt.Fprintf(os.Stderr, "\r%d events enriched, %d/s, %d waiting, %d dead letters \x1b[K", f.Events, f.Events-before, f.Lag, f.DeadLetters)
			before = f.Events
		}
	}
}
