package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
)

// walk is one reading of both streams, side by side.
type walk struct {
	v      *Verifier
	report *Report
	js     jetstream.JetStream

	sourceCreated, targetCreated time.Time

	source, target *streamread.Reader
	ahead          *streamread.Message // event of the source that was read, and not passed
	letters        letters

	at      uint64 // source sequence of the latest event in order
	end     uint64 // the target is read through this sequence
	gaps    gaps
	missing spans
	gone    spans
	ids     *idSet
	chains  chains
	spoilt  map[uint64]bool // events of the source that are not passed yet, and of which there is a finding
}

func newWalk(v *Verifier) *walk {
	w := &walk{
		v: v, js: v.cfg.JetStream, ids: newIDSet(), spoilt: map[uint64]bool{}, chains: chains{ended: map[string]bool{}},
		report:  &Report{Source: v.enrichment.From, Target: v.target.CachedInfo().Config.Name, Began: time.Now(), Faults: map[Kind]uint64{}, Findings: []Finding{}},
		letters: letters{subject: v.enrichment.DeadLetter, source: v.enrichment.From, target: v.target.CachedInfo().Config.Name, stream: v.dead},
	}
	w.letters.open = func(first, last uint64) *streamread.Reader { return v.read(v.dead, w.letters.subject, first, last) }
	if v.dead != nil {
		w.report.DeadLetters = v.dead.CachedInfo().Config.Name
	}
	if w.letters.inTarget() {
		w.gaps.reach = nearby
	}
	return w
}

func (w *walk) close() {
	w.letters.close()
	for _, r := range []*streamread.Reader{w.source, w.target} {
		if r != nil {
			r.Close()
		}
	}
}

// run reads through the point, and then finds out what is wrong.
func (w *walk) run(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	deadline := w.report.Began.Add(w.v.cfg.Wait)
	for {
		if err := w.merge(ctx); err != nil {
			return err
		}
		if err := w.passDead(ctx, math.MaxUint64); err != nil {
			return err
		}
		if w.ahead == nil || time.Now().After(deadline) {
			break
		}
		pause.For(ctx, 100*time.Millisecond)
		if err := w.extend(ctx); err != nil {
			return err
		}
	}
	if err := w.countWaiting(ctx); err != nil {
		return err
	}
	return w.conclude(ctx)
}

// begin fixes the point, and how far the target is read. The target first: what is in it
// through there has an original at or below the point.
func (w *walk) begin(ctx context.Context) error {
	target, err := w.v.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	source, err := w.v.source.Info(ctx)
	if err != nil {
		return fmt.Errorf("source stream: %w", err)
	}
	w.sourceCreated, w.targetCreated = source.Created, target.Created
	w.report.Point = source.State.LastSeq
	w.v.point.Store(w.report.Point)
	w.end = target.State.LastSeq
	w.source = w.v.read(w.v.source, w.v.enrichment.Filter, max(source.State.FirstSeq, w.v.cfg.After+1), w.report.Point)
	w.target = w.v.read(w.v.target, "", target.State.FirstSeq, w.end)
	return w.letters.read(ctx)
}

// extend reads on in the target, as far as it has grown, and in the dead letters.
func (w *walk) extend(ctx context.Context) error {
	target, err := w.v.target.Info(ctx)
	if err != nil {
		return fmt.Errorf("target stream: %w", err)
	}
	if !target.Created.Equal(w.targetCreated) {
		return fmt.Errorf("%w: %s", ErrReplaced, target.Config.Name)
	}
	w.end = max(w.end, target.State.LastSeq)
	w.target.Extend(w.end)
	return w.letters.read(ctx)
}

// merge reads the target through its end.
func (w *walk) merge(ctx context.Context) error {
	for {
		msg, err := w.target.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.gaps.pass(msg.Sequence)
		if err := w.receive(ctx, msg); err != nil {
			return err
		}
	}
}
