package enrich

import (
	"cmp"
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/internal/pause"
)

// preparedBatch is a batch that is ready to be published, or the reason why there is none
// yet.
type preparedBatch struct {
	plan *plan
	msgs []*nats.Msg  // the events of the plan
	dead []deadLetter // the events that cannot be stamped
	lag  uint64       // how many events follow in the source
	err  error
}

// preparer makes batches out of the events that a reader reads. It prepares the next batch
// while the one before is being published.
type preparer struct {
	e      *Enricher
	reader *reader
	out    chan preparedBatch
	cancel context.CancelFunc
	ended  chan struct{}
}

func (e *Enricher) newPreparer(r *reader) *preparer {
	ctx, cancel := context.WithCancel(context.Background())
	p := &preparer{e: e, reader: r, out: make(chan preparedBatch), cancel: cancel, ended: make(chan struct{})}
	go p.run(ctx)
	return p
}

// close returns when nothing is under way any more. The IDs of a batch that nobody received
// are lost.
func (p *preparer) close() {
	p.cancel()
	<-p.ended
}

func (p *preparer) run(ctx context.Context) {
	defer close(p.ended)
	for {
		events, err := p.reader.readBatch(ctx)
		if err == nil { // the reader's consumer may have been replaced by one on another stream
			err = p.e.checkSameSource(ctx)
		}
		if err != nil {
			p.deliver(ctx, preparedBatch{err: err})
			return
		}
		for !p.deliver(ctx, p.e.prepareBatch(ctx, events)) {
			if pause.For(ctx, firstPause); ctx.Err() != nil {
				return
			}
		}
	}
}

// deliver hands over a batch, or the reason why there is none, and reports whether it was a
// batch.
func (p *preparer) deliver(ctx context.Context, b preparedBatch) bool {
	select {
	case p.out <- b:
	case <-ctx.Done():
	}
	return b.err == nil
}

// candidate is an event of a batch that is being prepared.
type candidate struct {
	event
	draft   *nats.Msg
	keepsID bool   // the event keeps the ID that it has
	tag     string // otherwise: the tag of the ID that it gets
	refused error  // why it cannot be stamped
}

// prepareBatch plans which event gets which ID, and stamps the events.
func (e *Enricher) prepareBatch(ctx context.Context, events []event) preparedBatch {
	candidates, wants := e.draftEvents(events)
	pools := make(map[string]*idPool, len(wants))
	for tag, n := range wants {
		p, err := e.fetchPool(ctx, tag, n)
		if err != nil {
			return preparedBatch{err: fmt.Errorf("no IDs of %s: %w", cmp.Or(tag, "snowflake"), err)}
		}
		pools[tag] = p
	}
	out := preparedBatch{plan: &plan{}, lag: events[len(events)-1].behind}
	for _, c := range candidates {
		id, err := int64(0), c.refused
		if err == nil && !c.keepsID {
			if id, err = pools[c.tag].nextID(); err == nil {
				err = e.stamper.putID(c.draft, c.event, id)
			}
		}
		if err != nil {
			out.dead = append(out.dead, deadLetter{c.event, err})
			continue
		}
		out.plan.addEvent(c.seq, id)
		out.msgs = append(out.msgs, c.draft)
	}
	out.plan.Through = events[len(events)-1].seq
	return out
}

// draftEvents finds out which events keep the ID that they have, which cannot be stamped,
// and how many IDs of each tag the others need.
func (e *Enricher) draftEvents(events []event) (candidates []candidate, wants map[string]int64) {
	candidates, wants = make([]candidate, len(events)), make(map[string]int64)
	for i, event := range events {
		c := candidate{event: event}
		c.draft, c.keepsID, c.refused = e.stamper.draftChecked(event, e.limit)
		if c.refused == nil && !c.keepsID {
			c.tag = e.ids.tagFor(event.subject)
			wants[c.tag]++
		}
		candidates[i] = c
	}
	return candidates, wants
}
