package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/messages/enrich/verify"
)

// enrichCmds are the commands about enrichment. Without another word it is enriching.
type enrichCmds struct {
	Run    enrichCmd `cmd:"" default:"withargs" help:"Stamp the events of a stream with IDs and publish them to another. The word run may be left out."`
	Verify verifyCmd `cmd:"" help:"Prove that each event of the one stream is in the other once, in order, with an ID of its own."`

	Rm enrichRmCmd `cmd:"" help:"Remove the record of an enrichment that ended for good. Stop its enrichers first."`
}

// verifyCmd verifies an enrichment. It changes nothing.
type verifyCmd struct {
	installation `embed:"" group:"nats"`

	From       string `required:"" help:"Stream that events were read from." placeholder:"STREAM"`
	Filter     string `help:"Which of its subjects, as the enrichers have it." default:">" placeholder:"SUBJECT"`
	To         string `required:"" help:"Subject of stamped events, as the enrichers have it." placeholder:"SUBJECT"`
	ID         string `help:"Which IDs, as the enrichers have it: with {{wildcard(n)}} in the tag, two tags may have the same numbers." placeholder:"KIND"`
	JSON       string `name:"json" help:"Path of the ID in the JSON object, as the enrichers have it." placeholder:"KEY.KEY"`
	JSONNumber bool   `name:"json-number" help:"The ID in the JSON object is a number."`
	DeadLetter string `help:"Subject of dead letters, as the enrichers have it." placeholder:"SUBJECT"`

	After uint64 `help:"Events of the source through this one are not verified: those that --resume-after gave up, for example." default:"0" placeholder:"SEQ" env:"-"`

	Wait        time.Duration `help:"How long to wait for events that have not arrived yet. They are counted otherwise." default:"0s" env:"-"`
	NoConsumers bool          `help:"Read with requests for single messages, which takes several times as long: for a user that may read and nothing else." env:"-"`

	Output string `help:"How to print the report: text or json." default:"text" enum:"text,json" env:"-"`
}

// Run prints what is right and what is wrong.
func (c *verifyCmd) Run(ctx context.Context, out output) error {
	conn, js, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetErrorHandler(nil) // events may have headers that nobody can decode
	ctx, explainDenied := natsconn.WhenDenied(ctx, conn)
	return explainDenied(c.verify(ctx, js, out))
}

// verifyOpenTimeout bounds finding the streams.
const verifyOpenTimeout = 30 * time.Second

// verify verifies, and prints what it found.
func (c *verifyCmd) verify(ctx context.Context, js jetstream.JetStream, out io.Writer) error {
	v, err := c.open(ctx, js)
	if err != nil {
		return err
	}
	var report *verify.Report
	progress.Show(func() { report, err = v.Run(ctx) }, func() string {
		passed, point := v.Progress()
		return fmt.Sprintf("at event %d of %d", passed, point)
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

// print prints a report, a line for each thing that it says.
func (c *verifyCmd) print(out io.Writer, r *verify.Report) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(out, "%-5s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("point", "event %d, the last of %s at %s; nothing behind it was looked at", r.Point, r.Source, millis(r.Began))
	for _, finding := range r.Findings {
		line("FAIL", "%s", finding)
	}
	for _, kind := range []verify.Kind{verify.Missing, verify.Doubled, verify.Order, verify.SharedID, verify.BadID, verify.Changed, verify.Foreign, verify.Unknown} {
		if n := r.Faults[kind]; n > verify.MaxFindings {
			line("FAIL", "%s: %d in all", kind, n)
		}
	}
	if r.Faults[verify.Missing] > 0 && c.DeadLetter == "" {
		line("note", "without --dead-letter, events that could not be stamped count as missing")
	}
	switch {
	case r.Through == 0:
		line("note", "there is no event of %s in %s that could be verified", r.Source, r.Target)
	case len(r.Faults) == 0:
		line("ok", "%d events of %s are in %s, each once, in order, with an ID of its own: events %d to %d, stored at %s",
			r.Events, r.Source, r.Target, r.From, r.Through, millis(r.Stored))
	default:
		line("note", "%d events were compared, from %d to %d, stored at %s", r.Events, r.From, r.Through, millis(r.Stored))
	}
	for _, count := range []struct {
		n    uint64
		text string
	}{
		{r.Dead, "dead: %d not in the target but among the dead letters in " + r.DeadLetters},
		{r.Both, "both: %d in the target and among the dead letters too"},
		{r.Waiting, "waiting: %d not in the target yet, and not verified"},
		{r.Gone, "gone: %d that cannot be verified; as many messages have been removed from the target or the dead letters"},
		{r.Orphans, "orphans: %d that the source has removed since; only their order and their IDs were verified"},
		{r.Before, "before: %d events through --after; only their IDs were verified"},
		{r.Others, "others: %d messages in the target on other subjects, which were ignored"},
	} {
		if count.n > 0 {
			line("note", count.text, count.n)
		}
	}
}

func millis(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
