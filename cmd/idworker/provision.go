package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/store/register"
	"github.com/idworker/idworker/worker"
)

// provisionCmd makes what an installation needs in JetStream, so that those who serve need
// no right to.
type provisionCmd struct {
	installation `embed:"" group:"nats"`
	storeFlags   `embed:"" group:"store"`

	resourceFlags `embed:""`
	printFlags    `embed:""`

	Part part `help:"What to make: ids, what workers and loaders need; enrich, what enrichers need, who may have an account of their own; or all." default:"all" enum:"all,ids,enrich"`
}

// part is a part of an installation.
type part string

const (
	partAll    part = "all"
	partIDs    part = "ids"
	partEnrich part = "enrich"
)

// Run prints a line per resource. It goes on after a failure, so that one run shows all
// that is wrong.
func (p *provisionCmd) Run(ctx context.Context, out output) error {
	if _, err := p.backend(); err != nil {
		return err
	}
	if err := p.resourceFlags.check(p.Prefix); err != nil {
		return err
	}
	log := newLogger(zapcore.WarnLevel)
	defer func() { _ = log.Sync() }() // stderr cannot be synced on every system
	done := newList[provisioned](out, "resources")
	return done.End(p.withJetStream(ctx, func(ctx context.Context, js jetstream.JetStream) (failed error) {
		for _, r := range p.resources(p.Prefix, p.Part) {
			var did string
			err := kv.WithRetry(ctx, log, func(ctx context.Context) (err error) {
				did, err = r.Apply(ctx, js)
				return err
			})
			if err == nil {
				done.Add(provisioned{r.String(), did})
				continue
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r, err))
			if ctx.Err() != nil {
				break
			}
		}
		return failed
	}))
}

// provisioned is a resource that is as it should be.
type provisioned struct {
	Resource string `json:"resource"`
	Result   string `json:"result"` // what was done
}

// String is a line for people.
func (p provisioned) String() string { return p.Resource + ": " + p.Result }

// resourceFlags say how streams and buckets should be.
type resourceFlags struct {
	Replicas int           `help:"Replicas of streams and buckets, 1 to 5. By default one for what is created, and as many as there are of what exists."`
	LeaseTTL time.Duration `help:"When the worker ID of a process that died is free again, at least 15s." default:"30s"`
}

// check refuses what a worker would refuse.
func (f resourceFlags) check(prefix messages.Prefix) error {
	if err := (worker.Config{Prefix: prefix, Replicas: f.Replicas}).WithDefaults().Check(); err != nil {
		return err
	}
	if err := lease.CheckTTL(f.LeaseTTL); err != nil {
		return problem.Usage(fmt.Errorf("--lease-ttl: %w", err))
	}
	return nil
}

// resources are what there is to make.
func (f resourceFlags) resources(prefix messages.Prefix, part part) (all []kv.Resource) {
	if part != partEnrich {
		all = append(worker.Resources(prefix, f.Replicas), lease.Resources(prefix, f.LeaseTTL, f.Replicas)...)
		all = append(all, register.Bucket(prefix, f.Replicas))
	}
	if part != partIDs {
		all = append(all, enrich.Bucket(prefix, f.Replicas))
	}
	return all
}
