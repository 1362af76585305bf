package enrich

import "sort"

// plan says which events are in a batch and which IDs they get. It is saved before the
// batch is published, so that whoever has to publish the batch again publishes the same.
type plan struct {
	Through uint64 `json:"through"` // the source is done through this sequence once the batch is in the target
	Runs    []run  `json:"runs"`    // ascending by sequence
}

// run is N events with consecutive source sequences and consecutive IDs. The ID 0 stands
// for events that keep the ID that they have.
type run struct {
	Seq uint64 `json:"seq"`
	N   int    `json:"n"`
	ID  int64  `json:"id"`
}

// addEvent appends an event, whose sequence must be above those before.
func (p *plan) addEvent(seq uint64, id int64) {
	p.Through = seq
	if len(p.Runs) > 0 {
		last := &p.Runs[len(p.Runs)-1]
		next := last.ID + int64(last.N)
		if last.ID == 0 {
			next = 0
		}
		if seq == last.Seq+uint64(last.N) && id == next {
			last.N++
			return
		}
	}
	p.Runs = append(p.Runs, run{seq, 1, id})
}

// size is the number of events in the plan.
func (p *plan) size() (n uint64) {
	for _, r := range p.Runs {
		n += uint64(r.N)
	}
	return n
}

// idOf returns the ID of an event, and whether the event is in the plan.
func (p *plan) idOf(seq uint64) (int64, bool) {
	i := sort.Search(len(p.Runs), func(i int) bool { return p.Runs[i].Seq > seq }) - 1
	if i < 0 || seq >= p.Runs[i].Seq+uint64(p.Runs[i].N) {
		return 0, false
	}
	r := p.Runs[i]
	if r.ID == 0 {
		return 0, true
	}
	return r.ID + int64(seq-r.Seq), true
}

// sequences lists the source sequences of the events.
func (p *plan) sequences() []uint64 {
	seqs := make([]uint64, 0, p.size())
	for _, r := range p.Runs {
		for i := range r.N {
			seqs = append(seqs, r.Seq+uint64(i))
		}
	}
	return seqs
}

// lastSequence is the sequence of the last event.
func (p *plan) lastSequence() uint64 {
	r := p.Runs[len(p.Runs)-1]
	return r.Seq + uint64(r.N) - 1
}

// runsAfter returns the runs of the events above a sequence.
func (p *plan) runsAfter(seq uint64) (left []run) {
	for _, r := range p.Runs {
		if r.Seq > seq {
			left = append(left, r)
		} else if end := r.Seq + uint64(r.N); end > seq+1 {
			skip := seq + 1 - r.Seq
			rest := run{Seq: seq + 1, N: r.N - int(skip), ID: r.ID}
			if r.ID != 0 {
				rest.ID += int64(skip)
			}
			left = append(left, rest)
		}
	}
	return left
}
