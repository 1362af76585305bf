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
	"github.com/idworker/idworker/cmd/internal/embedded"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/cmd/internal/status"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker"
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
	return checks(func(report func(doctor.Finding)) error {
		conn, js, err := c.dial(status.Options()...)
		if err != nil {
			return err
		}
		defer conn.Close()
		resources := append(worker.Resources(c.Prefix, 0), lease.Resources(c.Prefix, lease.DefaultTTL, 0)...)
		return examine(ctx, &doctor.Doctor{
			Conn: conn, JetStream: js, Prefix: c.Prefix, Domain: c.JSDomain, Role: string(rights.Admin),
			Needs: worker.Rights(c.Prefix, rights.Admin), Resources: resources, Server: serverName(conn),
			Sync:    func(ctx context.Context) error { return doctor.CheckSync(ctx, conn) },
			Storage: true, MaxClockSkew: 5 * time.Second,
		}, report)
	})
}

// checks are what doctor finds for the role of the flags.
func (d *doctorCmd) checks(ctx context.Context) []status.Check {
	return checks(func(report func(doctor.Finding)) error {
		source, err := d.backend()
		if err != nil {
			return err
		}
		conn, js, err := d.dial(status.Options()...)
		if err != nil {
			return err
		}
		defer conn.Close()
		look, closeStore, err := d.doctor(ctx, conn, js, source)
		if err != nil {
			return err
		}
		defer closeStore()
		look.Processes = false // the status reports them itself
		return examine(ctx, look, report)
	})
}

// examine has doctor look. An embedded server is for this installation alone, and so is its storage.
func examine(ctx context.Context, look *doctor.Doctor, report func(doctor.Finding)) error {
	look.Storage = look.Storage && look.Conn.ConnectedServerName() != embedded.ServerName
	return look.Examine(ctx, report)
}

// checks collects what doctor finds when it looks.
func checks(look func(report func(doctor.Finding)) error) (all []status.Check) {
	err := look(func(f doctor.Finding) {
		check := status.Check{What: f.What, Text: f.Good}
		switch {
		case f.Err != nil && f.Warning:
			check.Severity, check.Text = status.Warning, explain(f.Err)
		case f.Err != nil:
			check.Severity, check.Text = status.Error, explain(f.Err)
		}
		all = append(all, check)
	})
	if err != nil && !errors.Is(err, doctor.ErrSick) {
		all = append(all, status.Check{What: "doctor", Severity: status.Warning, Text: explain(err)})
	}
	return all
}
