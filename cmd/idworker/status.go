package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/status"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/snowflake/lease"
)

// statusCmd shows how the whole installation is.
type statusCmd struct {
	installation `embed:"" group:"nats"`

	Search string `arg:"" optional:"" help:"Only tags with this in their names."`
	Sort   string `help:"Order of tags: rate, the busiest first; runway, those first whose memory ends first; or name." default:"rate" enum:"rate,runway,name"`
	Tags   int    `help:"How many tags to show, 0 to 100000." default:"20"`
	Watch  bool   `help:"Go on, and show it anew every two seconds."`
	JSON   bool   `name:"json" help:"Print it as JSON, on one line, with all tags that workers tell of."`
}

// maxStatusTags bounds what is printed.
const maxStatusTags = 100_000

// watchEvery is how often a status that is watched is shown.
const watchEvery = 2 * time.Second

// Run prints the status once, or again and again until ctx ends.
func (c *statusCmd) Run(ctx context.Context, out output) error {
	if c.Tags < 0 || c.Tags > maxStatusTags {
		return problem.Usage(fmt.Errorf("--tags %d: allowed is 0 to %d", c.Tags, maxStatusTags))
	}
	conn, js, err := c.dial(status.Options()...)
	if errors.Is(err, nats.ErrNoServers) {
		err = fmt.Errorf("%w; start one with idworker serve, or name yours with --server", err)
	}
	if err != nil {
		return err
	}
	first := &dialled{conn, js}
	collector := status.NewCollector(status.Config{
		Prefix: c.Prefix, Domain: c.JSDomain != "" || c.Context != "",
		Dial:    func() (*nats.Conn, jetstream.JetStream, error) { return first.or(c.installation) },
		Examine: c.checks,
	})
	defer collector.Stop()
	if !c.Watch {
		return c.show(out, collector.Collect(ctx))
	}
	for {
		i := collector.Collect(ctx)
		if ctx.Err() != nil { // which is how it ends
			return nil
		}
		if err := c.show(out, i); err != nil {
			return err
		}
		pause.For(ctx, watchEvery)
	}
}

// dialled is a connection that is there already.
type dialled struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

// or returns it the first time, and then makes others.
func (d *dialled) or(i installation) (conn *nats.Conn, js jetstream.JetStream, err error) {
	if d.conn == nil {
		return i.dial(status.Options()...)
	}
	conn, d.conn = d.conn, nil
	return conn, d.js, nil
}

// show prints one status.
func (c *statusCmd) show(out output, i *status.Installation) error {
	if c.JSON {
		return json.NewEncoder(out).Encode(i)
	}
	view := i.View(status.Query{Search: c.Search, Sort: status.Order(c.Sort), Size: max(c.Tags, 1)})
	view.Page = view.Page[:min(c.Tags, len(view.Page))]
	var text bytes.Buffer // printed at once, so that a terminal does not flicker
	if c.Watch && progress.IsTerminal(out.Writer) {
		text.WriteString("\x1b[H\x1b[2J")
	}
	if err := view.Print(&text); err != nil {
		return err
	}
	_, err := text.WriteTo(out)
	return err
}

// checks are what doctor finds for an administrator, but for the store: who counts what is not asked for here.
func (c *statusCmd) checks(ctx context.Context) []status.Check {
	return checks(ctx, c.installation, doctor.Doctor{
		Role: doctor.Role(rights.Admin), Resources: resourceFlags{LeaseTTL: lease.DefaultTTL}.resources(c.Prefix, partAll), MaxClockSkew: 5 * time.Second,
	})
}

// checks has doctor look at what the status does not collect itself.
func checks(ctx context.Context, at installation, look doctor.Doctor) (all []status.Check) {
	conn, js, err := at.dial(status.Options()...)
	if err != nil {
		return []status.Check{{What: "doctor", Severity: status.Warning, Text: explain(err)}}
	}
	defer conn.Close()
	look.Conn, look.JetStream, look.Prefix, look.Domain, look.SkipProcesses = conn, js, at.Prefix, at.JSDomain, true
	_ = look.Examine(ctx, func(f doctor.Finding) { // what is wrong is among the checks
		check := status.Check{What: f.What, Text: f.Good}
		switch {
		case f.Err != nil && f.Warning:
			check.Severity, check.Text = status.Warning, explain(f.Err)
		case f.Err != nil:
			check.Severity, check.Text = status.Error, explain(f.Err)
		}
		all = append(all, check)
	})
	return all
}
