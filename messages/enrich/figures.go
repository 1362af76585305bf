package enrich

import "sync/atomic"

// figures are an enricher's counters since its start.
type figures struct {
	events, batches, dead, turns atomic.Int64
	lag                          atomic.Int64
	failing                      atomic.Bool
}

// Figures is a snapshot of an enricher's figures since its start.
type Figures struct {
	Events      int64 // published to the target by this enricher
	Batches     int64 // published
	DeadLetters int64 // published
	Turns       int64 // how often it had the turn

	// Lag is the number of events that waited in the source behind the latest one that
	// this enricher enriched.
	Lag int64
}

// Figures returns the enricher's figures.
func (e *Enricher) Figures() Figures {
	f := &e.figures
	return Figures{
		Events:      f.events.Load(),
		Batches:     f.batches.Load(),
		DeadLetters: f.dead.Load(),
		Turns:       f.turns.Load(),
		Lag:         f.lag.Load(),
	}
}

// countBatch counts a published batch.
func (f *figures) countBatch(events int, lag uint64) {
	f.events.Add(int64(events))
	f.batches.Add(1)
	f.lag.Store(int64(lag))
}
