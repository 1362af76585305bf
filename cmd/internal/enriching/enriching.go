// Package enriching is the command idworker enrich, but for how it connects and what it serves
// over HTTP.
package enriching

import (
	"context"
	"fmt"
	"io"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
)

// Flags are those of an enrichment.
type Flags struct {
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

	ResumeUnproven bool `help:"With --resume-after: do so even if messages of the target are gone that could say that events behind SEQ are enriched already."`

	Replicas int `help:"Replicas of the bucket of records, if it is created; 1 to 5." default:"1"`
}

// Open returns an enricher that is ready to run.
func (f Flags) Open(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, log *zap.Logger) (*enrich.Enricher, error) {
	config, err := f.config(ctx, js, prefix, log)
	if err != nil {
		return nil, err
	}
	return enrich.Open(ctx, config)
}

// Resume decides what ResumeAfter says, and says so.
func (f Flags) Resume(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, out io.Writer, log *zap.Logger) error {
	config, err := f.config(ctx, js, prefix, log)
	if err != nil {
		return err
	}
	resume := enrich.Resume
	if f.ResumeUnproven {
		resume = enrich.ResumeUnproven
	}
	if err := resume(ctx, config, *f.ResumeAfter); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "noted: goes on after %d; start enrichers now\n", *f.ResumeAfter)
	return err
}

// Stopped is what the last line of the log says.
func Stopped(f enrich.Figures) []zap.Field {
	return []zap.Field{
		zap.Int64("events", f.Events), zap.Int64("batches", f.Batches), zap.Int64("dead_letters", f.DeadLetters),
		zap.Int64("turns", f.Turns), zap.Int64("lost", f.Lost),
		zap.Int64("waiting", f.Lag), zap.String("oldest", fmt.Sprintf("%.1fs", f.Oldest.Seconds())),
	}
}

func (f Flags) config(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, log *zap.Logger) (enrich.Config, error) {
	installation, err := agreement.PeekInstallation(ctx, js, prefix)
	return enrich.Config{
		Conn: js.Conn(), JetStream: js, IDs: messages.NewClient(js.Conn(), prefix), Prefix: prefix,
		From: f.From, Filter: f.Filter, To: f.To, ID: f.ID,
		JSON: f.JSON, JSONNumber: f.JSONNumber, Existing: f.Existing, DeadLetter: f.DeadLetter,
		OnLoss: f.OnLoss, Installation: installation, Explain: explain.Text, Replicas: f.Replicas, Log: log,
	}, err
}

// Run enriches until ctx ends.
func Run(ctx context.Context, e *enrich.Enricher) {
	var before int64
	progress.Show(func() { e.Run(ctx) }, func() string {
		f := e.Figures()
		rate := f.Events - before
		before = f.Events
		return fmt.Sprintf("%d events enriched, %d/s, %d waiting, %d dead letters", f.Events, rate, f.Lag, f.DeadLetters)
	})
}
