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

// Addresses of the demo, unless flags set others.
const (
	demoAPI  = "127.0.0.1:8080"
	demoHTTP = "127.0.0.1:9090"
)

// demoAddresses returns the addresses of the status page and of the HTTP API:
// those of the flags, or else the demo's own if they are free.
func (s *serveCmd) demoAddresses(ctx context.Context, log *zap.Logger) (page, callers string) {
	free := func(address, off, flag string) string {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			log.Info(off, zap.String("address", address), zap.Error(err), zap.String("hint", flag+" sets another address"))
			return ""
		}
		_ = l.Close()
		return address
	}
	if page = s.HTTP; page == "" {
		page = free(demoHTTP, "status page off, port taken", "--http or $IDWORKER_HTTP")
	}
	if callers = s.API; callers == "" && s.Role.Answers() {
		callers = free(demoAPI, "HTTP API off, port taken", "--api or $IDWORKER_API")
	}
	return page, callers
}

// demoBatch is the number of IDs that the demo requests at once.
const demoBatch = 100

// demo creates a tag if there is none, gets IDs of it, and prints examples.
func (d *daemon) demo(ctx context.Context, out output) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tag := store.Tag{Name: "order", Step: 1000}
	err := d.at.withPatientJetStream(ctx, withTags(d.at.Prefix, d.cfg.source, func(ctx context.Context, t *tags.Tags) error {
		_, err := t.CreateLowest(ctx, tag)
		return err
	}))
	if err != nil && !errors.Is(err, store.ErrTagExists) {
		return err
	}
	conn, _, err := d.at.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := newClient(conn, d.at.Prefix)
	id, err := client.Next(ctx, tag.Name)
	// Workers may remember for a second that there was no such tag.
	for errors.Is(err, messages.ErrNoTag) && ctx.Err() == nil {
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
		doors += fmt.Sprintf("\n  Status page:          http://%s/\n", d.cfg.http.HTTP)
	}
	_, err = fmt.Fprintf(out, `
  one ID of tag %[1]s:  %[2]d
  %[3]d more:            %[4]v

  Get more, in another terminal:

    %[5]s get%[7]s %[1]s
    %[5]s get%[7]s --ranges %[1]s 1000
    nats request%[7]s --raw %[6]s ''
%[8]s
  Create another tag:   %[5]s tag create%[7]s ticket
  Stop:                 Ctrl-C

`, tag.Name, id, demoBatch, more, os.Args[0], d.at.Prefix.Segment(tag.Name), arguments, doors)
	return err
}
