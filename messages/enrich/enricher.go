package enrich

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/resource"
)

// Enricher is one process's share in an enrichment.
type Enricher struct {
	cfg      Config
	name     string // of the enrichment: its streams
	instance string // names this enricher, anew at each start
	log      *zap.Logger

	source, target jetstream.Stream
	stamper        stamper
	ids            idKind
	limit          int // bytes of a message
	deadInTarget   bool

	book    book
	outage  outage
	starved bool // no IDs for the next batch
	figures figures
}

// Open checks the settings and the streams, and returns an enricher that is ready to run.
// The bucket is made if it is missing. Errors wrap [ErrConfig] if trying again is of no
// use.
func Open(ctx context.Context, cfg Config) (*Enricher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	source, err := openSource(ctx, cfg.JetStream, cfg)
	if err != nil {
		return nil, err
	}
	from := source.CachedInfo().Config
	target, err := openTarget(ctx, cfg.JetStream, cfg, from)
	if err != nil {
		return nil, err
	}
	if err := checkDeadLetter(ctx, cfg.JetStream, cfg, from); err != nil {
		return nil, err
	}
	e := &Enricher{cfg: cfg, instance: nuid.Next(), source: source, target: target}
	e.name = enrichmentName(cfg.From, target.CachedInfo().Config.Name)
	e.log = cfg.Log.With(zap.String("enrichment", e.name), zap.String("instance", e.instance))
	e.outage.log = e.log
	mapping, err := newMapping(cfg.Filter, cfg.To)
	if err != nil {
		return nil, err
	}
	if e.ids, err = parseID(cfg.ID, cfg.Filter); err != nil {
		return nil, err
	}
	e.stamper = stamper{source: cfg.From, mapping: mapping, json: path{cfg.JSON, cfg.JSONNumber}, existing: cfg.Existing}
	e.deadInTarget = slices.ContainsFunc(target.CachedInfo().Config.Subjects, func(s string) bool { return covers(s, cfg.DeadLetter) })
	e.limit = int(cfg.Conn.MaxPayload())
	if most := int(target.CachedInfo().Config.MaxMsgSize); most > 0 {
		e.limit = min(e.limit, most)
	}
	kv, err := openBucket(ctx, cfg)
	if err != nil {
		return nil, err
	}
	e.book = book{kv: kv, key: e.name}
	if err := e.book.load(ctx); err != nil {
		return nil, err
	}
	return e, e.sameAs(e.book.record)
}

// Name is the name of the enrichment, the same for all that share it: its streams.
func (e *Enricher) Name() string { return e.name }

// Instance is this enricher's name in the record.
func (e *Enricher) Instance() string { return e.instance }

// openBucket opens the bucket of the records, made if it is missing.
func openBucket(ctx context.Context, cfg Config) (jetstream.KeyValue, error) {
	if err := resource.Ensure(ctx, cfg.JetStream, Bucket(cfg.Prefix, cfg.Replicas)); err != nil {
		return nil, err
	}
	kv, _, err := resource.OpenBucket(ctx, cfg.JetStream, BucketName(cfg.Prefix))
	return kv, err
}

// The pauses between tries while something is away.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// Run enriches until ctx ends. It returns when the step under way is finished and the turn
// handed over, and nothing that it started is left. What goes wrong is logged and tried
// again.
func (e *Enricher) Run(ctx context.Context) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		err := e.wait(ctx)
		if err == nil {
			err = e.turn(ctx)
		}
		switch {
		case err == nil, errors.Is(err, errLost), errors.Is(err, errMoved):
			pause = firstPause
			continue
		case ctx.Err() != nil:
			return
		}
		e.failed(err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// failed and worked keep the books of whether enriching works.
func (e *Enricher) failed(err error) {
	e.outage.failed(err)
	e.figures.failing.Store(true)
}

func (e *Enricher) worked() {
	e.outage.worked()
	e.figures.failing.Store(false)
}

// Ready says that something keeps events from being enriched, if so.
func (e *Enricher) Ready() error {
	if e.figures.failing.Load() {
		return errors.New("enriching fails, see the log")
	}
	return nil
}
