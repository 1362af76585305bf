package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/cmd/internal/tags"
	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/messages"
)

// pinFlag names the installation that NATS must have, so that lost data does
// not become a new installation whose IDs begin at 1.
type pinFlag struct {
	Installation string `help:"Refuse any installation but the one with this ID." placeholder:"ID"`
}

func (p pinFlag) checkPin() error {
	if p.Installation == "" {
		return nil
	}
	if err := agreement.CheckID(p.Installation); err != nil {
		return problem.Usage(fmt.Errorf("--installation: %w", err))
	}
	return nil
}

// admit checks the pin, if any. It changes nothing.
func (p pinFlag) admit(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix) error {
	if p.Installation == "" {
		return nil
	}
	return agreement.CheckPin(ctx, js, prefix, p.Installation)
}

// birthFlag makes the birth of an installation explicit.
type birthFlag struct {
	pinFlag `embed:""`
	New     bool `help:"Make a new installation, with the ID of --installation if given; refused if any bucket exists."`
}

var errNotNew = problem.New(problem.Invalid, "--new is for a new installation")

// admit checks the pin, or makes a new installation.
func (b birthFlag) admit(ctx context.Context, js jetstream.JetStream, prefix messages.Prefix, replicas int) error {
	if !b.New {
		return b.pinFlag.admit(ctx, js, prefix)
	}
	for _, r := range (resourceFlags{}).resources(prefix, partAll) {
		if !strings.HasPrefix(r.String(), "bucket ") || !tags.Allowed(ctx, js, rights.Publish(r.InfoSubject())) {
			continue // without entries, or another user's
		}
		_, err := r.Look(ctx, js)
		switch older := new(kv.OlderError); {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case errors.As(err, &older):
			return fmt.Errorf("%w: %w", errNotNew, older)
		case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
			return err
		default:
			return fmt.Errorf("%w: %s exists", errNotNew, r)
		}
	}
	return agreement.Begin(ctx, js, prefix, max(1, replicas), b.Installation)
}
