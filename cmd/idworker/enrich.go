package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/internal/goroutines"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/secretfile"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/store/agreement"
)

// enrichCmd copies the events of a stream to another, with IDs.
type enrichCmd struct {
	natsFlags `embed:"" group:"nats"`

	From   string `required:"" help:"Source stream." placeholder:"STREAM"`
	Filter string `help:"Subjects to read." default:">" placeholder:"SUBJECT"`
	To     string `required:"" help:"Subject for stamped events, with --filter's wildcards." placeholder:"SUBJECT"`
	ID     string `required:"" help:"IDs: snowflake, or segment:TAG, with {{wildcard(n)}} in the tag." placeholder:"KIND"`

	JSON       string          `name:"json" help:"Also write the ID to this JSON path." placeholder:"KEY.KEY"`
	JSONNumber bool            `name:"json-number" help:"Write the ID as a JSON number."`
	Existing   enrich.Existing `help:"Events that have an ID: keep or refuse." default:"keep" enum:"keep,refuse"`
	OnLoss     enrich.OnLoss   `help:"If the source lost events: go-on or stop." default:"go-on" enum:"go-on,stop"`
	DeadLetter string          `help:"Subject for events that cannot be stamped." placeholder:"SUBJECT"`

	ResumeAfter *uint64 `help:"Record the source as enriched through SEQ, and exit." placeholder:"SEQ"`

	ResumeUnproven bool `help:"With --resume-after: accept that the target lost messages."`

	Replicas int `help:"Replicas of a new record bucket, 1 to 5." default:"1"`

	httpFlags `embed:""`

	logFlags `embed:""`
}

// Run enriches until ctx ends.
func (c *enrichCmd) Run(ctx context.Context, out output, errs *journal) error {
	log := c.open(errs)
	if c.ResumeAfter != nil {
		return c.end(log, c.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			return c.resume(ctx, js, out, log)
		}))
	}
	files := &secretfile.Set{Log: log}
	return c.end(log, serveUntilStopped(ctx, files, func(ctx context.Context) error { return c.enrich(ctx, files, errs) }))
}

// enrich enriches until ctx ends.
func (c *enrichCmd) enrich(ctx context.Context, files *secretfile.Set, errs *journal) error {
	log := files.Log
	registry := newRegistry()
	var running atomic.Pointer[enrich.Enricher]
	stopHTTP, err := c.serveHTTP(ctx, registry, func() httpState {
		if e := running.Load(); e != nil {
			return httpState{NotReady: e.Ready()}
		}
		return httpState{NotReady: errStarting}
	}, nil, log)
	if err != nil {
		return err
	}
	defer stopHTTP()
	nats, err := c.dialer(files)
	if err != nil {
		return err
	}
	conn, js, err := nats.dialToStay(ctx, "idworker enrich", natsconn.OwnAny, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	enricher, err := c.openEnricher(ctx, js, log)
	if err != nil {
		return err
	}
	ofInstallation(enricher.Installation(), registry, enricher.Metrics(), files, droppedLines(errs))
	running.Store(enricher)
	log.Info("enriching", zap.String("version", version), zap.String("enrichment", enricher.Name()), zap.String("instance", enricher.Instance()))
	background := goroutines.New()
	defer background.Stop()
	background.Start(func(stopped context.Context) {
		select {
		case <-ctx.Done():
			cutOff(stopped, log, conn)
		case <-stopped.Done():
		}
	})
	runEnricher(ctx, enricher, errs.terminal)
	log.Info("stopped", enrichedFields(enricher.Figures())...)
	return nil
}

// openEnricher opens the enrichment. It retries while a server starts or its cluster
// has no leader.
func (c *enrichCmd) openEnricher(ctx context.Context, js jetstream.JetStream, log *zap.Logger) (enricher *enrich.Enricher, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ctx, explainDenied := natsconn.WhenDenied(ctx, natsconn.OwnAny, js.Conn())
	err = kv.WithRetry(ctx, log, func(ctx context.Context) error {
		config, err := c.config(ctx, js, log)
		if err == nil {
			enricher, err = enrich.Open(ctx, config)
		}
		return err
	})
	return enricher, explainDenied(err)
}

// resume records --resume-after.
func (c *enrichCmd) resume(ctx context.Context, js jetstream.JetStream, out io.Writer, log *zap.Logger) error {
	config, err := c.config(ctx, js, log)
	if err != nil {
		return err
	}
	if err := enrich.Resume(ctx, config, *c.ResumeAfter, c.ResumeUnproven); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "recorded: enrichment resumes after event %d; start enrichers now\n", *c.ResumeAfter)
	return err
}

func (c *enrichCmd) config(ctx context.Context, js jetstream.JetStream, log *zap.Logger) (enrich.Config, error) {
	installation, err := agreement.PeekInstallation(ctx, js, c.Prefix)
	return enrich.Config{
		Conn: js.Conn(), JetStream: js, IDs: newClient(js.Conn(), c.Prefix), Prefix: c.Prefix,
		From: c.From, Filter: c.Filter, To: c.To, ID: c.ID,
		JSON: c.JSON, JSONNumber: c.JSONNumber, Existing: c.Existing, DeadLetter: c.DeadLetter,
		OnLoss: c.OnLoss, Installation: installation, Explain: explain, Replicas: c.Replicas, Log: log,
	}, err
}

// runEnricher enriches until ctx ends.
func runEnricher(ctx context.Context, e *enrich.Enricher, terminal io.Writer) {
	var before int64
	progress.ShowOn(terminal, func() { e.Run(ctx) }, func() string {
		f := e.Figures()
		rate := f.Events - before
		before = f.Events
		return fmt.Sprintf("enriched %d, %d/s, waiting %d, dead letters %d", f.Events, rate, f.Lag, f.DeadLetters)
	})
}

// enrichedFields are the fields of the last log line.
func enrichedFields(f enrich.Figures) []zap.Field {
	return []zap.Field{
		zap.Int64("events", f.Events), zap.Int64("batches", f.Batches), zap.Int64("dead_letters", f.DeadLetters),
		zap.Int64("turns", f.Turns), zap.Int64("lost", f.Lost),
		zap.Int64("waiting", f.Lag), zap.String("oldest", fmt.Sprintf("%.1fs", f.Oldest.Seconds())),
	}
}

// enrichRmCmd removes the record of a finished enrichment.
type enrichRmCmd struct {
	natsFlags  `embed:"" group:"nats"`
	printFlags `embed:""`

	Source string `arg:"" help:"Source stream."`
	Target string `arg:"" help:"Target stream."`
}

// Run removes the record, unless an enricher is working.
func (c *enrichRmCmd) Run(ctx context.Context, out output) error {
	return c.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		s, err := enrich.Retire(ctx, js, c.Prefix, c.Source, c.Target)
		if errors.Is(err, enrich.ErrAtWork) {
			return fmt.Errorf("%w; stop its enrichers first", err)
		}
		if err != nil {
			return err
		}
		return out.Print(removedRecord{c.Source, c.Target, s.Done})
	})
}

// removedRecord is the report about a removed record.
type removedRecord struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Done   uint64 `json:"done"`
}

// Text implements report.
func (r removedRecord) Text(out io.Writer) error {
	_, err := fmt.Fprintf(out, "removed the record of %s to %s, enriched through event %d; enriching to %[2]s again needs --resume-after, unless that stream is new\n",
		r.Source, r.Target, r.Done)
	return err
}
