package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

// workersCmd lists the worker IDs of snowflake IDs.
type workersCmd struct {
	installation `embed:""`
}

// Run prints a line for each worker ID that is leased, or was at some time.
func (c *workersCmd) Run(ctx context.Context, out output) error {
	return c.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		return c.list(ctx, js, out)
	})
}

func (c *workersCmd) list(ctx context.Context, js jetstream.JetStream, out output) error {
	holdings, layout, err := lease.List(ctx, js, c.Prefix)
	if holdings == nil && err != nil {
		return err
	}
	if layout == (snowflake.Layout{}) {
		fmt.Fprintln(out, "no layout yet, the first worker sets it")
		return err
	}
	fmt.Fprintf(out, "layout %s\n", layout)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DATACENTER\tWORKER\tHELD BY\tHOST\tSINCE\tCLOCK\tRESERVED UNTIL")
	for _, h := range holdings {
		by, since, clock := "-", "-", "-"
		if h.Held() {
			by, since, clock = h.Instance, stamp(h.Since), fmt.Sprintf("%+dms", h.ClockDiff.Milliseconds())
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%s\n", h.Datacenter, h.Worker, by, orDash(h.Host), since, clock, stamp(h.Reserved))
	}
	return errors.Join(w.Flush(), err)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
