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
	conn, _, err := c.dial(status.Options()...)
	if errors.Is(err, nats.ErrNoServers) {
		err = fmt.Errorf("%w; start one with idworker serve, or name yours with --server", err)
	}
	if err != nil {
		return err
	}
	conn.Close() // it was to show that the address and the login are right
	collector := &status.Collector{
		Prefix: c.Prefix, Domain: c.JSDomain != "" || c.Context != "",
		Dial: func() (*nats.Conn, jetstream.JetStream, error) { return c.dial(status.Options()...) },
		Doctor: doctor.Doctor{ // without the store: the flags of status do not name it
			Domain: c.JSDomain, Role: doctor.Role(rights.Admin), MaxClockSkew: 5 * time.Second,
			Resources: resourceFlags{LeaseTTL: lease.DefaultTTL}.resources(c.Prefix, partAll), Explain: explain,
		},
	}
	for {
		i := collector.Collect(ctx)
		if ctx.Err() != nil && c.Watch { // which is how it ends
			return nil
		}
		if err := c.show(out, i); err != nil || !c.Watch {
			return err
		}
		pause.For(ctx, watchEvery)
	}
}

// show prints one status.
func (c *statusCmd) show(out output, i *status.Installation) error {
	if c.JSON {
		return json.NewEncoder(out).Encode(i)
	}
	var text bytes.Buffer // printed at once, so that a terminal does not flicker
	if c.Watch && progress.IsTerminal(out.Writer) {
		text.WriteString("\x1b[H\x1b[2J")
	}
	if err := i.View(c.Search, status.Sort(c.Sort), c.Tags).Print(&text); err != nil {
		return err
	}
	_, err := text.WriteTo(out)
	return err
}
