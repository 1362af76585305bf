package enrich

import (
	"slices"
	"time"
)

// plan says which events follow in the target, and so at which of its sequences each of
// them will be. It is saved before any of them is published. It has no IDs: each try
// publishes new ones, and the target takes one try only.
type plan struct {
	Through uint64    `json:"through"` // the source is done through this event once all of Runs are in the target
	Time    time.Time `json:"time"`    // when the source stored that event
	Runs    []run     `json:"runs"`    // ascending
}

// run is N events with consecutive source sequences.
type run struct {
	Seq uint64 `json:"seq"`
	N   uint64 `json:"n"`
}

// add appends an event, whose sequence must be above those before.
func (p *plan) add(seq uint64) {
	if n := len(p.Runs); n > 0 && p.Runs[n-1].Seq+p.Runs[n-1].N == seq {
		p.Runs[n-1].N++
		return
	}
	p.Runs = append(p.Runs, run{seq, 1})
}

// sequences lists the source sequences of the events.
func (p *plan) sequences() (seqs []uint64) {
	for _, r := range p.Runs {
		for i := range r.N {
			seqs = append(seqs, r.Seq+i)
		}
	}
	return seqs
}

// last is the source sequence of the last event of a plan that has any.
func (p *plan) last() uint64 {
	r := p.Runs[len(p.Runs)-1]
	return r.Seq + r.N - 1
}

// dropThrough takes the events through a source sequence out of the plan.
func (p *plan) dropThrough(seq uint64) {
	left := plan{}
	for _, s := range p.sequences() {
		if s > seq {
			left.add(s)
		}
	}
	p.Runs = left.Runs
}

func (p *plan) hasSameEvents(other plan) bool { return slices.Equal(p.Runs, other.Runs) }
