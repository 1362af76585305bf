package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// getCmd prints IDs, one a line.
type getCmd struct {
	installation `embed:""`

	Tag     string        `arg:"" help:"Tag whose IDs to get."`
	Count   int64         `arg:"" optional:"" name:"n" default:"1" help:"How many."`
	Ranges  bool          `help:"Print ranges, first-last, instead of single IDs."`
	Timeout time.Duration `help:"How long to wait." default:"5s"`
}

// Run asks once, in one batch: all IDs, or an error and none.
func (g *getCmd) Run(ctx context.Context, out output) error {
	if err := messages.CheckTag(g.Tag); err != nil {
		return err
	}
	conn, err := g.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	ranges, err := messages.NewClient(conn, g.Prefix).NextN(ctx, g.Tag, g.Count)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: no worker serves the prefix %q there; start one with: idworker serve", err, g.Prefix)
	case errors.Is(err, messages.ErrNoTag):
		return fmt.Errorf("%w; create it with: idworker tag create %s", err, g.Tag)
	case err != nil:
		return err
	}
	w := bufio.NewWriter(out)
	if g.Ranges {
		for _, r := range ranges {
			fmt.Fprintln(w, r)
		}
		return w.Flush()
	}
	for id := range messages.IDs(ranges) {
		fmt.Fprintln(w, id)
	}
	return w.Flush()
}
