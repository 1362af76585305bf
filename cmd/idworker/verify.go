package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
)

// enrichCmds are the commands about enrichment. The default is to enrich.
type enrichCmds struct {
	Run    enrichCmd `cmd:"" default:"withargs" help:"Add IDs to events (the default command)."`
	Verify verifyCmd `cmd:"" help:"Verify that events arrived once, in order, with unique IDs."`

	Rm enrichRmCmd `cmd:"" help:"Remove the record of a finished enrichment."`
}

// verifyCmd verifies an enrichment. It changes nothing.
type verifyCmd struct {
	natsFlags `embed:"" group:"nats"`

	From       string `required:"" help:"Source stream." placeholder:"STREAM"`
	Filter     string `help:"The enrichers' --filter." default:">" placeholder:"SUBJECT"`
	To         string `required:"" help:"The enrichers' --to." placeholder:"SUBJECT"`
	ID         string `help:"The enrichers' --id." placeholder:"KIND"`
	JSON       string `name:"json" help:"The enrichers' --json." placeholder:"KEY.KEY"`
	JSONNumber bool   `name:"json-number" help:"The enrichers' --json-number."`
	DeadLetter string `help:"The enrichers' --dead-letter." placeholder:"SUBJECT"`

	After uint64 `help:"Skip events through SEQ." default:"0" placeholder:"SEQ" env:"-"`

	Wait        time.Duration `help:"Time to wait for missing events." default:"0s" env:"-"`
	NoConsumers bool          `help:"Read single messages, without consumers (slower)." env:"-"`

	Output string `help:"Report format: text or json." default:"text" enum:"text,json" env:"-"`
}

// Run prints the report.
func (c *verifyCmd) Run(ctx context.Context, out output) error {
	conn, js, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetErrorHandler(nil) // events may have headers that cannot be decoded
	ctx, explainDenied := natsconn.WhenDenied(ctx, natsconn.OwnAny, conn)
	return explainDenied(c.verify(ctx, js, out))
}

// verifyOpenTimeout bounds the lookup of the streams.
const verifyOpenTimeout = 30 * time.Second

// verify verifies, and prints the report.
func (c *verifyCmd) verify(ctx context.Context, js jetstream.JetStream, out io.Writer) error {
	v, err := c.open(ctx, js)
	if err != nil {
		return err
	}
	var report *verify.Verification
	progress.Show(func() { report, err = v.Run(ctx) }, func() string {
		passed, point := v.Progress()
		return fmt.Sprintf("event %d of %d", passed, point)
	})
	if err != nil && !errors.Is(err, verify.ErrFaults) && !errors.Is(err, verify.ErrWaiting) {
		return err
	}
	if c.Output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return errors.Join(err, encoder.Encode(report))
	}
	c.print(out, report)
	return err
}

func (c *verifyCmd) open(ctx context.Context, js jetstream.JetStream) (*verify.Verifier, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyOpenTimeout)
	defer cancel()
	return verify.Open(ctx, verify.Config{JetStream: js, Wait: c.Wait, After: c.After, NoConsumers: c.NoConsumers, Enrichment: enrich.Config{
		From: c.From, Filter: c.Filter, To: c.To, ID: c.ID,
		JSON: c.JSON, JSONNumber: c.JSONNumber, DeadLetter: c.DeadLetter,
	}})
}

// print prints a report line by line.
func (c *verifyCmd) print(out io.Writer, r *verify.Verification) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(out, "%-5s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("point", "through event %d, the last of %s at %s", r.Point, r.Source, millis(r.Began))
	for _, finding := range r.Findings {
		line("FAIL", "%s", finding)
	}
	for _, kind := range []verify.FaultKind{verify.Missing, verify.Doubled, verify.Order, verify.SharedID, verify.BadID, verify.Changed, verify.Foreign, verify.Unknown} {
		if n := r.Faults[kind]; n > verify.MaxFindings {
			line("FAIL", "%s: %d in total", kind, n)
		}
	}
	if r.Faults[verify.Missing] > 0 && c.DeadLetter == "" {
		line("note", "without --dead-letter, dead letters count as missing")
	}
	switch {
	case r.Through == 0:
		line("note", "no event of %s to verify in %s", r.Source, r.Target)
	case len(r.Faults) == 0:
		line("ok", "%s of %s found in %s once, in order, with unique IDs: sequences %d to %d, stored at %s",
			format.Of(r.Events, "event"), r.Source, r.Target, r.From, r.Through, millis(r.Stored))
	default:
		line("note", "%s compared, %d to %d, stored at %s", format.Of(r.Events, "event"), r.From, r.Through, millis(r.Stored))
	}
	for _, count := range []struct {
		n    uint64
		text string
	}{
		{r.Dead, "dead: %d, in " + r.DeadLetters},
		{r.Both, "both: %d in the target and dead letters"},
		{r.Waiting, "waiting: %d not in the target yet"},
		{r.Gone, "gone: %d unverifiable, lost by the target or the dead letters"},
		{r.Orphans, "orphans: %d removed from the source since; only order and IDs verified"},
		{r.Before, "before: %d through --after; only IDs verified"},
		{r.Others, "others: %d on other subjects of the target, ignored"},
	} {
		if count.n > 0 {
			line("note", count.text, count.n)
		}
	}
}

func millis(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
