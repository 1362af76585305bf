package status

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/ownership"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/tagrules"
	"github.com/idworker/idworker/messages"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
	"github.com/idworker/idworker/worker"
)

// askLeases finds out which workers there should be. The process that looks may know it.
func (c *collection) askLeases(ctx context.Context) {
	if c.cfg.Leases != nil {
		if c.leases = c.cfg.Leases(); c.leases != nil {
			return
		}
	}
	c.part(ctx, "which workers there should be", ownership.ReadLeasesRights(c.cfg.Prefix), func(ctx context.Context) (err error) {
		c.leases, err = ownership.ReadLeases(ctx, c.js, c.cfg.Prefix)
		return unlessMissing(err)
	})
}

// workerIDs are those of snowflake IDs.
type workerIDs struct {
	layout snowflake.Layout
	all    []WorkerID
	heard  map[string]time.Time // the latest heartbeat of each holder, by instance
}

func (c *collection) askWorkerIDs(ctx context.Context) {
	c.workerIDs.heard = make(map[string]time.Time)
	c.part(ctx, "worker IDs", lease.ListRights(c.cfg.Prefix), func(ctx context.Context) error {
		holdings, layout, err := lease.List(ctx, c.js, c.cfg.Prefix)
		c.workerIDs.layout = layout
		for _, h := range holdings {
			c.workerIDs.all = append(c.workerIDs.all, WorkerID{
				Datacenter: h.Datacenter, Worker: h.Worker, Instance: h.Instance, Host: h.Host, Since: h.Since,
				AheadMS: h.ClockDiff.Milliseconds(), Reserved: h.Reserved,
			})
			if h.Held() {
				c.workerIDs.heard[h.Instance] = h.Heartbeat
			}
		}
		return unlessMissing(err)
	})
}

// tagNames are the tags that have a name of their own, and the rules.
type tagNames struct {
	steps map[string]int64
	rules *tagrules.Rules
}

func tagNamesRights(p messages.Prefix) rights.Rights {
	return rights.Join(rights.WatchBucket(worker.TagsBucketName(p)), tagrules.ReadRights(p))
}

// tagNamesAge is how old the tags may be that are shown.
const tagNamesAge = 30 * time.Second

func (c *collection) askTags(ctx context.Context) {
	c.part(ctx, "the tag directory", tagNamesRights(c.cfg.Prefix), func(ctx context.Context) (err error) {
		c.tagNames, err = c.tags.get(ctx, tagNamesAge, c.readTags)
		return err
	})
}

func (c *Collector) readTags(ctx context.Context) (t tagNames, err error) {
	editor, err := tagrules.OpenEditor(ctx, c.js, c.cfg.Prefix)
	if err != nil {
		return t, unlessMissing(err)
	}
	if t.rules, err = editor.Read(ctx); err != nil {
		return t, err
	}
	directory, err := worker.OpenDirectory(ctx, c.js, c.cfg.Prefix, zap.NewNop())
	if err != nil {
		return t, unlessMissing(err)
	}
	t.steps, err = directory.Steps(ctx)
	return t, err
}

func (c *collection) askEnrichments(ctx context.Context) {
	c.part(ctx, "enrichments", enrich.ListRights(c.cfg.Prefix), func(ctx context.Context) error {
		all, err := enrich.List(ctx, c.js, c.cfg.Prefix)
		for i := range all {
			c.addEnrichment(ctx, &all[i], i < maxEnrichment)
		}
		return unlessMissing(err)
	})
}

// addEnrichment adds an enrichment, with what waits in its source if that is to be asked for.
func (c *collection) addEnrichment(ctx context.Context, s *enrich.Standing, measure bool) {
	e := Enrichment{
		Source: s.Source, Target: s.Target, To: s.To, IDs: s.ID, Enricher: s.Owner, Done: s.Done,
		Written: s.Written, Stalled: time.Since(s.Written) > enrich.Stalled,
	}
	if measure {
		c.part(ctx, "what waits in "+s.Source, enrich.MeasureRights(s.Source), func(ctx context.Context) error {
			err := s.Measure(ctx, c.js)
			if err == nil {
				e.Lag, e.Oldest = &s.Lag, s.Oldest
			}
			return err
		})
	}
	c.enrichments = append(c.enrichments, e)
}

// unlessMissing drops the error that a bucket does not exist: nobody has needed it yet.
func unlessMissing(err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	return err
}
