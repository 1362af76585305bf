package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/health"
	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/snowflake/lease"
)

// statusCmd prints the status of an installation.
type statusCmd struct {
	natsFlags `embed:"" group:"nats"`

	Search string `arg:"" optional:"" help:"Show only tags whose names contain this."`
	Sort   string `help:"Sort tags by rate, runway or name." default:"rate" enum:"rate,runway,name"`
	Tags   int    `help:"Number of tags, 0 to 100000." default:"20"`
	Watch  bool   `help:"Refresh every two seconds."`
	JSON   bool   `name:"json" help:"Print one line of JSON, with all reported tags."`
}

// maxStatusTags bounds the output.
const maxStatusTags = 100_000

// watchEvery is the interval of --watch.
const watchEvery = 2 * time.Second

// Run prints the status once, or repeatedly until ctx ends.
func (c *statusCmd) Run(ctx context.Context, out output) error {
	if c.Tags < 0 || c.Tags > maxStatusTags {
		return problem.Usage(fmt.Errorf("--tags %d: allowed is 0 to %d", c.Tags, maxStatusTags))
	}
	conn, _, err := c.connect(health.Options()...)
	if err != nil {
		return err
	}
	conn.Close()                    // it only checked the address and the login
	collector := &health.Collector{ // without the store, which has no flags here
		Prefix: c.Prefix, Dial: func() (*nats.Conn, jetstream.JetStream, error) { return c.dial(health.Options()...) },
		Role: rights.Admin, Viewer: true, MaxClockSkew: lease.DefaultMaxClockSkew,
		Resources: resourceFlags{LeaseTTL: lease.DefaultTTL}.resources(c.Prefix, partAll), Explain: explain,
	}
	for {
		i := collector.Collect(ctx)
		if ctx.Err() != nil && c.Watch { // the usual end of --watch
			return nil
		}
		if err := c.show(out, i); err != nil || !c.Watch {
			return err
		}
		pause.For(ctx, watchEvery)
	}
}

// show prints a status.
func (c *statusCmd) show(out output, i *health.Installation) error {
	if c.JSON {
		return json.NewEncoder(out).Encode(i)
	}
	// Printed at once, so that a terminal does not flicker.
	var text bytes.Buffer
	if c.Watch && progress.IsTerminal(out.Writer) {
		text.WriteString("\x1b[H\x1b[2J")
	}
	if err := i.View(c.Search, health.Sort(c.Sort), c.Tags).Print(&text); err != nil {
		return err
	}
	_, err := text.WriteTo(out)
	return err
}
