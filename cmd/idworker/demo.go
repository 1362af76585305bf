package main

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/demo"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/store"
	"github.com/idworker/idworker/worker"
)

// demo creates the demo's tag if there is none, and shows what can be done with it.
func (s *serveCmd) demo(ctx context.Context, out output, source backend.Backend) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := s.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error {
		tag := demo.Tag
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
	conn, _, err := s.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	arguments := ""
	if url := natsconn.Redact(s.Server); s.Server != "" && url != nats.DefaultURL {
		arguments = "--server " + url
	}
	return demo.Show(ctx, out, conn, s.Prefix, demo.Ways{Command: os.Args[0], Arguments: arguments, API: s.API, Page: s.HTTP})
}

// Where the demo opens its doors, unless it is told where.
const (
	demoAPI  = "127.0.0.1:8080"
	demoHTTP = "127.0.0.1:9090"
)

// openDoors has the demo answer over HTTP and show the status page, too, as far as nobody else listens there.
func (s *serveCmd) openDoors(ctx context.Context, log *zap.Logger) {
	open := func(flag *string, address, taken string) {
		if *flag != "" {
			return
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			log.Info(taken, zap.String("address", address), zap.Error(err))
			return
		}
		_ = l.Close()
		*flag = address
	}
	open(&s.HTTP, demoHTTP, "no status page, its port is taken; --http or $IDWORKER_HTTP says where else")
	if s.Role != worker.RoleLoader {
		open(&s.API, demoAPI, "no HTTP for callers, its port is taken; --api or $IDWORKER_API says where else")
	}
}
