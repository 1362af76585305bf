package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/benching"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// benchCmd puts load on an installation, and checks all IDs that it gets.
type benchCmd struct {
	installation   `embed:"" group:"nats"`
	benching.Flags `embed:""`
	printFlags     `embed:""`

	Tags      []string `arg:"" optional:"" name:"tag" help:"Tags to ask for in turn."`
	Snowflake bool     `help:"Ask for snowflake IDs; if tags are given, for these in turn with them." env:"-"`
}

// Run prints a report, also if ctx ends before the time is over.
func (c *benchCmd) Run(ctx context.Context, out output) error {
	if err := c.checkArguments(); err != nil {
		return err
	}
	bench := &benching.Bench{Flags: c.Flags}
	for range (c.Callers + benching.CallersPerConnection - 1) / benching.CallersPerConnection {
		conn, _, err := c.connect()
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := c.CheckServer(conn); err != nil {
			return err
		}
		bench.Clients = append(bench.Clients, messages.NewClient(conn, c.Prefix))
	}
	if err := c.look(ctx, bench); err != nil {
		return err
	}
	return bench.Run(ctx, out)
}

func (c *benchCmd) checkArguments() error {
	if len(c.Tags) == 0 && !c.Snowflake {
		return problem.Usage(errors.New("want a tag, or --snowflake"))
	}
	for _, tag := range c.Tags {
		if err := messages.CheckTag(tag); err != nil {
			return err
		}
	}
	return c.Check()
}

// look asks for everything once, so that what is wrong is said before the load begins, and for what there is to
// know about it.
func (c *benchCmd) look(ctx context.Context, bench *benching.Bench) error {
	conn, js, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := messages.NewClient(conn, c.Prefix)
	denied, explainDenied := natsconn.WhenDenied(ctx, conn)
	wanted := c.Tags
	if c.Snowflake {
		wanted = append(wanted, "")
	}
	for _, tag := range wanted {
		if err := c.tryBatch(denied, nextOf(client, tag)); err != nil {
			return explainNoIDs(explainDenied(err), c.Prefix, conn, tag)
		}
		target := benching.Target{}
		if tag != "" {
			if target, err = c.lookAt(denied, client, tag); err != nil {
				return explainDenied(err)
			}
		}
		bench.Targets = append(bench.Targets, target)
	}
	if c.Snowflake {
		bench.Layout = c.installedLayout(denied, js)
	}
	return nil
}

// tryBatch asks for one batch.
func (c *benchCmd) tryBatch(ctx context.Context, next nextIDs) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	_, err := briefly(next)(ctx, c.Batch)
	if limit := limitIn(err); limit > 0 {
		return problem.Usage(fmt.Errorf("--batch %d is too large: 1 to %d are allowed", c.Batch, limit))
	}
	return err
}

func (c *benchCmd) lookAt(ctx context.Context, client *messages.Client, tag string) (benching.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return benching.Look(ctx, client, tag)
}

// installedLayout is the layout of snowflake IDs, or zero: callers need no right to read it.
func (c *benchCmd) installedLayout(ctx context.Context, js jetstream.JetStream) snowflake.Layout {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	text, err := lease.InstalledLayout(ctx, js, c.Prefix)
	if err != nil {
		return snowflake.Layout{}
	}
	layout, _ := snowflake.ParseLayout(text) // zero if there is none
	return layout
}
