package enrich

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/idworker/idworker/internal/kv"
	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/internal/subject"
)

// Enricher is a process's share in an enrichment.
type Enricher struct {
	cfg      Config
	name     string // of the enrichment: its streams
	instance string // names this enricher; new after each start
	log      *zap.Logger

	source, target jetstream.Stream
	stamper        stamper
	ids            idKind
	publisher      publisher

	deadLettersInTarget bool // the target stream takes the dead letters too

	record  recordEntry
	figures figures
}

// Open checks the settings and the streams, and returns an enricher that is
// ready to run. It creates the bucket of records if it is missing. Errors wrap
// [ErrConfig] if a retry does not help; those about the target may be a
// [TargetError].
func Open(ctx context.Context, cfg Config) (*Enricher, error) {
	e, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := e.readRecord(ctx); err != nil {
		return nil, err
	}
	if err := e.checkSettings(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return e, nil
}

// open is Open, except that the record may have other settings.
func open(ctx context.Context, cfg Config) (*Enricher, error) {
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
	e := &Enricher{cfg: cfg, instance: nuid.Next(), source: source, target: target, figures: figures{stops: make(map[string]int64)}}
	e.name = enrichmentName(cfg.From, e.targetName())
	e.log = cfg.Log.With(zap.String("enrichment", e.name), zap.String("instance", e.instance))
	mapping, _ := newMapping(cfg.Filter, cfg.To) // checked
	e.ids, _ = parseIDKind(cfg.ID, cfg.Filter)
	e.stamper = stamper{source: cfg.From, mapping: mapping, json: jsonPath{cfg.JSON, cfg.JSONNumber}, existing: cfg.Existing}
	e.publisher = publisher{conn: cfg.Conn, stream: e.targetName(), most: maxBatch}
	e.readLimits(target.CachedInfo().Config)
	if err := kv.Ensure(ctx, cfg.JetStream, Bucket(cfg.Prefix, cfg.Replicas)); err != nil {
		return nil, err
	}
	e.record.key = recordKey(e.targetName())
	e.record.bucket, err = kv.Open(ctx, cfg.JetStream, BucketName(cfg.Prefix))
	return e, err
}

// readLimits reads the limits that the target's configuration sets. It may
// change while enrichers run.
func (e *Enricher) readLimits(target jetstream.StreamConfig) {
	e.stamper.limit = int(e.cfg.Conn.MaxPayload())
	if most := int(target.MaxMsgSize); most > 0 {
		e.stamper.limit = min(e.stamper.limit, most)
	}
	// A stream with replicas counts a message before it is stored. If storing
	// fails, the next message of a fast batch takes its place.
	e.publisher.fast = target.AllowBatchPublish && target.Replicas <= 1
	e.stamper.letterLimit = int(e.cfg.Conn.MaxPayload())
	e.deadLettersInTarget = slices.ContainsFunc(target.Subjects, func(s string) bool { return subject.Covers(s, e.cfg.DeadLetter) })
	if e.deadLettersInTarget {
		e.stamper.letterLimit = e.stamper.limit
	}
}

func (e *Enricher) targetName() string { return e.target.CachedInfo().Config.Name }

// Name returns the name of the enrichment, source and target stream joined by a
// dot. It is the same for all its enrichers.
func (e *Enricher) Name() string { return e.name }

// Instance returns this enricher's name in the record, new at each start.
func (e *Enricher) Instance() string { return e.instance }

// Installation returns the ID of the installation that issues the IDs, or "".
func (e *Enricher) Installation() string { return e.cfg.Installation }

// Run enriches until ctx ends. It returns when the batch in flight is finished,
// the turn is handed over, and all its goroutines have ended. Failures are
// logged and retried.
func (e *Enricher) Run(ctx context.Context) {
	var measuring sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	measuring.Go(func() { e.measure(ctx) })
	defer measuring.Wait()
	defer cancel() // even after a panic
	for next := e.cfg.timers.firstPause; ctx.Err() == nil; next = min(2*next, e.cfg.timers.maxPause) {
		err := e.awaitTurn(ctx)
		hasTurn := err == nil
		if hasTurn {
			err = e.runTurn(ctx)
		}
		switch {
		case err == nil, errors.Is(err, errRecordMoved), isRefusal(err) && e.publisher.refusals < maxRefusals:
			next = e.cfg.timers.firstPause
			continue
		case ctx.Err() != nil:
			return
		}
		if e.reportFailure(err) {
			next = e.cfg.timers.firstPause
		}
		if hasTurn {
			e.saveFailure(ctx)
		}
		pause.For(ctx, next)
	}
}

// reportFailure counts a failure, and reports whether an outage begins with it.
// It logs that, and each other reason of the outage.
func (e *Enricher) reportFailure(err error) (first bool) {
	text := e.cfg.Explain(err)
	first, news := e.figures.countFailure(err, text)
	if news {
		e.log.Error("enrichment failing; retrying", zap.String("error", text))
	}
	return first
}

// saveFailure records why this enricher's turn has ended, for [List], and gives
// up the turn. If that fails, or another enricher has the turn, the record stays.
func (e *Enricher) saveFailure(ctx context.Context) {
	r, revision := &e.record, e.record.revision
	err := e.loadRecord(ctx)
	if err == nil && r.exists() && r.revision == revision && !sameReason(r.Failing, e.figures.failure()) {
		r.Owner = ""
		_ = e.saveRecord(ctx)
	}
}

// reportSuccess ends an outage.
func (e *Enricher) reportSuccess() {
	if lasted, failures := e.figures.endOutage(); failures > 0 {
		e.log.Info("enrichment working again", zap.Duration("after", lasted), zap.Int("failures", failures))
	}
}

// reportIdle ends an outage if no event waits behind Done.
func (e *Enricher) reportIdle(ctx context.Context) {
	if e.Ready() == nil {
		return
	}
	if _, err := streamread.Next(ctx, e.cfg.JetStream, e.cfg.From, e.cfg.Filter, e.record.Done+1); errors.Is(err, jetstream.ErrMsgNotFound) {
		e.reportSuccess()
	}
}

// Ready returns an error while the enrichment fails, with the reason.
func (e *Enricher) Ready() error {
	if reason := e.figures.failure(); reason != "" {
		return errors.New("enrichment failing: " + reason)
	}
	return nil
}
