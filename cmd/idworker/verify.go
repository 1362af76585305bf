package main

import (
	"context"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/verifying"
)

// enrichCmds are the commands about enrichment. Without another word it is enriching.
type enrichCmds struct {
	Run    enrichCmd `cmd:"" default:"withargs" help:"Stamp the events of a stream with IDs and publish them to another. The word run may be left out."`
	Verify verifyCmd `cmd:"" help:"Prove that each event of the one stream is in the other once, in order, with an ID of its own."`
}

// verifyCmd verifies an enrichment. It changes nothing.
type verifyCmd struct {
	installation    `embed:"" group:"nats"`
	verifying.Flags `embed:""`
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
	return explainDenied(c.Flags.Run(ctx, js, out))
}
