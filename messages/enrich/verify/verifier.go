package verify

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/rights"
	"github.com/idworker/idworker/internal/streamread"
	"github.com/idworker/idworker/messages/enrich"
)

var (
	// ErrFaults means that the report has faults.
	ErrFaults = errors.New("the target has faults")

	// ErrWaiting means that events had not arrived within [Config.Wait]. The
	// others have no faults.
	ErrWaiting = problem.New(problem.TryLater, "events have not arrived in the target")

	// ErrReplaced means that a stream was deleted and recreated during the
	// read: the messages read are of two streams.
	ErrReplaced = errors.New("stream replaced during the read")
)

// Config selects the enrichment to verify.
type Config struct {
	JetStream jetstream.JetStream

	// Enrichment has the settings of the enrichers: From, Filter, To, JSON,
	// JSONNumber and DeadLetter. If ID is empty, all events count as being of
	// the same tag. The rest is not used.
	Enrichment enrich.Config

	// Wait bounds the wait for events that have not arrived yet.
	Wait time.Duration

	// After is a sequence of the source: the events through it are not
	// verified, because an operator decided about them. IDs of later events are
	// still compared with theirs.
	After uint64

	// NoConsumers reads by requests for single messages, which takes several
	// times as long. It is for users with read rights only.
	NoConsumers bool
}

// Verifier verifies an enrichment.
type Verifier struct {
	cfg            Config
	enrichment     enrich.Config
	source, target jetstream.Stream
	dead           jetstream.Stream // nil if there is none
	checker        checker

	passed, point atomic.Uint64
}

// Open checks the settings and finds the streams. Errors wrap enrich.ErrConfig
// if a retry does not help.
func Open(ctx context.Context, cfg Config) (*Verifier, error) {
	v := &Verifier{cfg: cfg, enrichment: cfg.Enrichment}
	e := &v.enrichment
	if e.Filter == "" {
		e.Filter = ">"
	}
	if e.ID == "" {
		e.ID = "snowflake"
	}
	if err := e.Check(); err != nil {
		return nil, err
	}
	var err error
	if v.source, err = openStream(ctx, cfg.JetStream, e.From); err != nil {
		return nil, err
	}
	if v.target, err = streamOf(ctx, cfg.JetStream, e.To); err != nil {
		return nil, err
	}
	if e.DeadLetter != "" {
		if v.dead, err = streamOf(ctx, cfg.JetStream, e.DeadLetter); err != nil {
			return nil, err
		}
	}
	v.checker = newChecker(*e, v.target.CachedInfo().Config)
	return v, nil
}

func openStream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: no stream %s", enrich.ErrConfig, name)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return s, nil
}

// streamOf finds the stream that takes a subject.
func streamOf(ctx context.Context, js jetstream.JetStream, subject string) (jetstream.Stream, error) {
	name, err := js.StreamNameBySubject(ctx, subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: no stream takes subject %q", enrich.ErrConfig, subject)
	}
	if err != nil {
		return nil, fmt.Errorf("find the stream of %q: %w", subject, err)
	}
	return openStream(ctx, js, name)
}

// read opens a reader of a stream, on subjects of a filter.
func (v *Verifier) read(stream jetstream.Stream, filter string, from, through uint64) *streamread.Reader {
	r := streamread.Open(v.cfg.JetStream, stream, filter, from, through)
	if v.cfg.NoConsumers {
		return r.WithoutConsumer()
	}
	return r
}

// Progress returns the source sequence that Run has passed, and its last. It
// may be called from any goroutine.
func (v *Verifier) Progress() (passed, point uint64) { return v.passed.Load(), v.point.Load() }

// targetName returns the name of the target.
func (v *Verifier) targetName() string { return v.target.CachedInfo().Config.Name }

// Run verifies. The report is complete if the error is nil or wraps [ErrFaults]
// or [ErrWaiting]. Calls must not overlap.
func (v *Verifier) Run(ctx context.Context) (*Verification, error) {
	w := newWalk(v)
	defer w.close()
	r := w.report
	switch err := w.run(ctx); {
	case err != nil:
		return r, err
	case len(r.Findings) > 0:
		return r, fmt.Errorf("%w; first: %s", ErrFaults, r.Findings[0])
	// The missing events were removed from the source since.
	case len(r.Faults) > 0:
		return r, ErrFaults
	case r.Waiting > 0 && v.cfg.Wait > 0:
		return r, fmt.Errorf("%w: %d after %v", ErrWaiting, r.Waiting, v.cfg.Wait)
	}
	return r, nil
}

// Rights are the rights that a role needs to verify any enrichment: to find
// streams by their subjects.
func Rights(role rights.Duty) rights.Rights {
	if role == rights.Auditor {
		return rights.Publish(rights.API("STREAM.NAMES"))
	}
	return rights.Rights{}
}
