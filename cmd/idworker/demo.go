package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/backend"
	"github.com/idworker/idworker/internal/natsconn"
	"github.com/idworker/idworker/internal/tags"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// The demo's tag, and how many IDs it gets.
const (
	demoTag   = "order"
	demoStep  = 1000
	demoBatch = 100
)

// demo creates a tag if there is none, asks for IDs over the wire as any service would,
// and prints them with the commands that get more.
func demo(ctx context.Context, out output, own installation, source backend.Backend) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := own.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		return t.Create(ctx, store.Tag{Name: demoTag, Step: demoStep, Next: 1})
	})
	if err != nil && !errors.Is(err, store.ErrTagExists) {
		return err
	}
	conn, _, err := own.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := messages.NewClient(conn, own.Prefix)
	id, err := firstID(ctx, client)
	if err != nil {
		return err
	}
	batch, err := client.NextN(ctx, demoTag, demoBatch)
	if err != nil {
		return err
	}
	self, server := os.Args[0], ""
	if url := natsconn.Redact(own.Server); own.Server != "" && url != nats.DefaultURL {
		server = " --server " + url
	}
	fmt.Fprintf(out, `
  one ID of tag %[1]s:  %[2]d
  %[3]d more:            %[4]v

  Get more, in another terminal:

    %[5]s get%[7]s %[1]s
    %[5]s get%[7]s %[1]s 1000
    nats request%[7]s --raw %[6]s ''

  Make another tag:     %[5]s tag create%[7]s invoice
  Stop:                 Ctrl-C

`, demoTag, id, demoBatch, batch, self, own.Prefix.Segment(demoTag), server)
	return nil
}

// firstID waits until the worker knows a tag that was just created.
func firstID(ctx context.Context, client *messages.Client) (int64, error) {
	for {
		id, err := client.Next(ctx, demoTag)
		if !errors.Is(err, messages.ErrNoTag) {
			return id, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
