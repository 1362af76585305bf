package main

import (
	"context"
	"errors"
	"fmt"
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

// demoBatch is how many IDs the demo gets at once.
const demoBatch = 100

// demo creates a tag if there is none, gets IDs of it, and shows how to get more.
func (d *daemon) demo(ctx context.Context, out output) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tag := store.Tag{Name: "order", Step: 1000, Next: 1}
	err := d.at.withTags(ctx, d.cfg.source, func(ctx context.Context, t *tags.Tags) error {
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
	conn, _, err := d.at.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := messages.NewClient(conn, d.at.Prefix)
	id, err := client.Next(ctx, tag.Name)
	for errors.Is(err, messages.ErrNoTag) && ctx.Err() == nil { // somebody asked before it was created
		pause.For(ctx, 10*time.Millisecond)
		id, err = client.Next(ctx, tag.Name)
	}
	if err != nil {
		return err
	}
	more, err := client.NextN(ctx, tag.Name, demoBatch)
	if err != nil {
		return err
	}
	arguments, doors := "", ""
	if url := natsconn.Redact(d.at.Server); d.at.Server != "" && url != nats.DefaultURL {
		arguments = " --server " + url
	}
	if d.cfg.api != nil {
		doors += fmt.Sprintf("    curl %s/v1/segment/%s\n", d.cfg.api.Address, tag.Name)
	}
	if d.cfg.http.HTTP != "" {
		doors += fmt.Sprintf("\n  See how it is:        http://%s/\n", d.cfg.http.HTTP)
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

`, tag.Name, id, demoBatch, more, os.Args[0], d.at.Prefix.Segment(tag.Name), arguments, doors)
	return err
}
