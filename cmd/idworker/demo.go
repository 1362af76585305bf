package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/store"
)

// demo creates the demo's tag if there is none, and shows what can be done with
// it.
func (d *daemon) demo(ctx context.Context, out output) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := d.nats.withTags(ctx, d.cfg.source, func(ctx context.Context, t *tags.Tags) error {
		tag := demoTag
		err := t.Create(ctx, tag)
		if below := new(store.BelowError); errors.As(err, &below) { // as after a restore
			tag.Next = below.Floor
			err = t.Create(ctx, tag)
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrTagExists) {
		return err
	}
	conn, _, err := d.nats.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	ways := demoWays{Command: os.Args[0], Page: d.cfg.http.HTTP}
	if url := natsconn.Redact(d.nats.Server); d.nats.Server != "" && url != nats.DefaultURL {
		ways.Arguments = "--server " + url
	}
	if d.cfg.api != nil {
		ways.API = d.cfg.api.Address
	}
	return showDemo(ctx, out, conn, d.nats.Prefix, ways)
}

// The addresses of the demo, unless flags say others.
const (
	demoAPI  = "127.0.0.1:8080"
	demoHTTP = "127.0.0.1:9090"
)

// demoAddresses returns where the demo shows the status page and answers over
// HTTP: where flags say, or at its own addresses if they are free.
func (s *serveCmd) demoAddresses(ctx context.Context, log *zap.Logger) (page, callers string) {
	free := func(address, taken string) string {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			log.Info(taken, zap.String("address", address), zap.Error(err))
			return ""
		}
		_ = l.Close()
		return address
	}
	if page = s.HTTP; page == "" {
		page = free(demoHTTP, "no status page, its port is taken; --http or $IDWORKER_HTTP says where else")
	}
	if callers = s.API; callers == "" && s.Role.Answers() {
		callers = free(demoAPI, "no HTTP for callers, its port is taken; --api or $IDWORKER_API says where else")
	}
	return page, callers
}

// demoTag is the demo's tag, which has to exist when it is shown.
var demoTag = store.Tag{Name: "order", Step: 1000, Next: 1}

// demoBatch is how many IDs it gets at once.
const demoBatch = 100

// demoWays are how to get at the installation of the demo.
type demoWays struct {
	Command   string // how idworker was called
	Arguments string // with which commands find the NATS server, if they need any
	API       string // HOST:PORT where callers are answered over HTTP, if anywhere
	Page      string // HOST:PORT of the status page, if there is one
}

// showDemo gets IDs and prints them, and the ways to more.
func showDemo(ctx context.Context, out io.Writer, conn *nats.Conn, prefix messages.Prefix, ways demoWays) error {
	client := messages.NewClient(conn, prefix)
	id, err := firstID(ctx, client)
	if err != nil {
		return err
	}
	more, err := client.NextN(ctx, demoTag.Name, demoBatch)
	if err != nil {
		return err
	}
	arguments, doors := "", ""
	if ways.Arguments != "" {
		arguments = " " + ways.Arguments
	}
	if ways.API != "" {
		doors += fmt.Sprintf("    curl %s/v1/segment/%s\n", ways.API, demoTag.Name)
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

`, demoTag.Name, id, demoBatch, more, ways.Command, prefix.Segment(demoTag.Name), arguments, doors)
	return err
}

// firstID waits until the worker knows a tag that was just created.
func firstID(ctx context.Context, client *messages.Client) (int64, error) {
	for {
		id, err := client.Next(ctx, demoTag.Name)
		if !errors.Is(err, messages.ErrNoTag) {
			return id, err
		}
		if pause.For(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}
