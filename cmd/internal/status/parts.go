package status

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/agreement"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/templates"
	"github.com/idworker/idworker/messages/enrich"
	"github.com/idworker/idworker/snowflake"
	"github.com/idworker/idworker/snowflake/lease"
)

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

// askTemplates reads them where any role may; a replica that lags will do.
func (c *collection) askTemplates(ctx context.Context) {
	c.part(ctx, "templates", rights.ReadBucket(agreement.BucketName(c.cfg.Prefix)), func(ctx context.Context) error {
		value, found, err := agreement.Lookup(ctx, c.js, c.cfg.Prefix, templates.Key)
		if found && err == nil {
			c.templates, err = templates.Decode([]byte(value))
		}
		return err
	})
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
