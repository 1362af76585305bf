package enrich

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/idworker/idworker/internal/pause"
	"github.com/idworker/idworker/internal/streamread"
)

// figures are an enricher's counters since its start.
type figures struct {
	events, batches, dead, turns, lost atomic.Int64

	lostBehind, lostThere uint64 // where events were lost last, and how many are counted

	stops   [len(reasons)]atomic.Int64
	failing atomic.Pointer[string] // the reason; nil while all is well

	owner  atomic.Bool
	done   atomic.Uint64 // the source is enriched through this sequence
	moved  atomic.Int64  // when done last moved on, Unix time in nanoseconds
	lag    atomic.Int64
	oldest atomic.Int64 // when the oldest event that waits was stored, Unix time in nanoseconds; 0 if none waits
}

// Figures is a snapshot of an enricher's figures since its start.
type Figures struct {
	Events      int64 // published to the target by this enricher
	Batches     int64 // published
	DeadLetters int64 // published
	Turns       int64 // how often it had the turn
	Lost        int64 // events that the source removed before they were enriched

	// Lag is the number of events that wait in the source, Oldest the age of the oldest of
	// them. Only an enricher whose turn it is, or that is kept from working, knows them.
	Lag    int64
	Oldest time.Duration
}

// Figures returns the enricher's figures.
func (e *Enricher) Figures() Figures {
	f := &e.figures
	out := Figures{
		Events:      f.events.Load(),
		Batches:     f.batches.Load(),
		DeadLetters: f.dead.Load(),
		Turns:       f.turns.Load(),
		Lost:        f.lost.Load(),
		Lag:         f.lag.Load(),
	}
	if oldest := f.oldest.Load(); oldest != 0 {
		out.Oldest = max(time.Since(time.Unix(0, oldest)), 0)
	}
	return out
}

// countBatch counts a published batch.
func (f *figures) countBatch(events, dead int, lag, done uint64) {
	f.events.Add(int64(events))
	f.dead.Add(int64(dead))
	f.batches.Add(1)
	f.done.Store(done)
	f.moved.Store(time.Now().UnixNano())
	f.lag.Store(int64(lag))
	f.oldest.Store(0)
}

// countLoss counts the events that are lost behind a position, unless they are counted: an
// enrichment that stands still meets them again. It reports whether it has counted any.
func (f *figures) countLoss(behind, n uint64) bool {
	if f.lostBehind != behind {
		f.lostBehind, f.lostThere = behind, 0
	}
	if n <= f.lostThere {
		return false
	}
	f.lost.Add(int64(n - f.lostThere))
	f.lostThere = n
	return true
}

// reasons are why an enrichment can stand still.
var reasons = [...]struct {
	name string
	err  error // nil for the last one: all else
}{
	{"undecided", ErrUndecided},
	{"loss", ErrLost},
	{"dead_letter", ErrNoDeadLetters},
	{"ids", errNoIDs},
	{"source", errSource},
	{"other", nil},
}

// countStop counts that the enrichment stands still for another reason than before.
func (f *figures) countStop(err error) {
	for i, reason := range &reasons {
		if reason.err != nil && !errors.Is(err, reason.err) {
			continue
		}
		if before := f.failing.Swap(&reason.name); before == nil || *before != reason.name {
			f.stops[i].Add(1)
		}
		return
	}
}

// measureEvery is how often the lag is measured while no batch does.
const measureEvery = time.Second

// measure keeps the lag up to date while no batch does, until ctx ends.
func (e *Enricher) measure(ctx context.Context) {
	f := &e.figures
	for ctx.Err() == nil {
		pause.For(ctx, e.cfg.timers.measureEvery)
		switch {
		case !f.owner.Load() && f.failing.Load() == nil:
			f.lag.Store(0) // the owner knows
			f.oldest.Store(0)
		case time.Since(time.Unix(0, f.moved.Load())).Abs() >= e.cfg.timers.measureEvery: // even if the clock was set back
			e.measureLag(ctx)
		}
	}
}

// measureLag asks the source what waits there. If it does not answer, the figures stay.
func (e *Enricher) measureLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.timers.exchangeTimeout)
	defer cancel()
	done := e.figures.done.Load()
	msg, err := streamread.Next(ctx, e.cfg.JetStream, e.cfg.From, e.cfg.Filter, done+1)
	var oldest int64
	var lag uint64
	if err == nil {
		oldest = msg.Time.UnixNano()
		lag, err = streamread.Count(ctx, e.source, e.cfg.Filter, done+1)
	}
	if (err == nil || errors.Is(err, jetstream.ErrMsgNotFound)) && e.figures.done.Load() == done {
		e.figures.lag.Store(int64(lag))
		e.figures.oldest.Store(oldest)
	}
}
