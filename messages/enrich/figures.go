package enrich

import "sync/atomic"

// figures is what an enricher counts, since its start.
type figures struct {
	events, batches, dead, turns atomic.Int64
	lag                          atomic.Int64
	failing                      atomic.Bool
}

// Figures is a snapshot of an enricher's figures since its start.
type Figures struct {
	Events      int64 // published to the target by this enricher
	Batches     int64
	DeadLetters int64
	Turns       int64 // how often it had the turn

	// Lag is how many events of the source waited behind the latest one that this
	// enricher enriched.
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

func (f *figures) enriched(events int, lag uint64) {
	f.events.Add(int64(events))
	f.batches.Add(1)
	f.lag.Store(int64(lag))
}
