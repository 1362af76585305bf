// Package demo shows somebody new what idworker does: it gets IDs over the wire, as any
// service would, and prints them with the commands that get more.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// Tag is the demo's tag, which has to exist when it is shown.
var Tag = store.Tag{Name: "order", Step: 1000, Next: 1}

// batch is how many IDs it gets at once.
const batch = 100

// Ways are how to get at the installation of the demo.
type Ways struct {
	Command   string // how idworker was called
	Arguments string // with which commands find the NATS server, if they need any
	API       string // HOST:PORT where callers are answered over HTTP, if anywhere
	Page      string // HOST:PORT of the status page, if there is one
}

// Show gets IDs and prints them, and the ways to more.
func Show(ctx context.Context, out io.Writer, conn *nats.Conn, prefix messages.Prefix, ways Ways) error {
	client := messages.NewClient(conn, prefix)
	id, err := firstID(ctx, client)
	if err != nil {
		return err
	}
	more, err := client.NextN(ctx, Tag.Name, batch)
	if err != nil {
		return err
	}
	arguments, doors := "", ""
	if ways.Arguments != "" {
		arguments = " " + ways.Arguments
	}
	if ways.API != "" {
		doors += fmt.Sprintf("    curl %s/v1/segment/%s\n", ways.API, Tag.Name)
	}
	if ways.Page != "" {
		doors += fmt.Sprintf("\n  See how it is:        http://%s/\n", ways.Page)
	}
	_, err = fmt.Fprintf(out, `
  one ID of tag %[1]s:  %[2]d
  %[3]d more:            %[4]v

  Get more, in another terminal:

    %[5]s get%[7]s %[1]s
    %[5]s get%[7]s %[1]s 1000
    nats request%[7]s --raw %[6]s ''
%[8]s
  Make another tag:     %[5]s tag create%[7]s invoice
  Stop:                 Ctrl-C

`, Tag.Name, id, batch, more, ways.Command, prefix.Segment(Tag.Name), arguments, doors)
	return err
}

// firstID waits until the worker knows a tag that was just created.
func firstID(ctx context.Context, client *messages.Client) (int64, error) {
	for {
		id, err := client.Next(ctx, Tag.Name)
		if !errors.Is(err, messages.ErrNoTag) {
			return id, err
		}
		if pause.For(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}
