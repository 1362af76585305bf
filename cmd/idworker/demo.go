package main

import (
	"context"
	"errors"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/cmd/internal/backend"
	"github.com/idworker/idworker/cmd/internal/demo"
	"github.com/idworker/idworker/cmd/internal/natsconn"
	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/store"
)

// demo creates the demo's tag if there is none, and shows what can be done with it.
func (s *serveCmd) demo(ctx context.Context, out output, source backend.Backend) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := s.withTags(ctx, source, func(ctx context.Context, t *tags.Tags) error { return t.Create(ctx, demo.Tag) })
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
	return demo.Show(ctx, out, conn, s.Prefix, os.Args[0], arguments)
}
